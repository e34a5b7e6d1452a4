"""Samples in Prometheus' text format (0.0.4).

All lines of a family must be together, and the families of several processes have to be joined. So each process renders
its own lines, with a label that names the process, and whoever is asked joins them by family. Parsing the texts of the
others would take longer than everything else about a scrape.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct
from prometheus_client.core import Metric
from prometheus_client.utils import floatToGoString

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# The text format has no such types; these are what the library's own renderer uses instead.
_TYPES = {"info": "gauge", "stateset": "gauge", "gaugehistogram": "histogram", "unknown": "untyped"}


class Block(Struct, frozen=True):
    """The lines of one family."""

    name: str
    head: str
    lines: str


def blocks(families: Iterable[Metric], labels: Mapping[str, str] | None = None) -> list[Block]:
    """These families, every sample with these labels besides its own."""
    own = _labels(labels or {})
    found = []
    for family in families:
        name = family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
        kind = _TYPES.get(family.type, family.type)
        text = family.documentation.replace("\\", r"\\").replace("\n", r"\n")
        lines = "".join(
            f"{sample.name}{_bracketed(own, _labels(sample.labels))} {_shown(sample.value)}\n"
            for sample in family.samples
            # When a counter was created. Prometheus has no use for it, and it doubles the number of families.
            if not sample.name.endswith("_created")
        )
        found.append(Block(name, f"# HELP {name} {text}\n# TYPE {name} {kind}\n", lines))
    return found


def joined(parts: Iterable[Iterable[Block]]) -> bytes:
    """One text of all these blocks."""
    heads: dict[str, str] = {}
    lines: dict[str, list[str]] = {}
    for part in parts:
        for block in part:
            heads.setdefault(block.name, block.head)
            lines.setdefault(block.name, []).append(block.lines)
    return "".join(head + "".join(lines[name]) for name, head in heads.items()).encode()


def _shown(value: float) -> str:
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]  # the library does not annotate it


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _bracketed(own: str, labels: str) -> str:
    both = f"{own},{labels}" if own and labels else own or labels
    return f"{{{both}}}" if both else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
