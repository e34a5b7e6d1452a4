"""Jinja2 with autoescaping and strict undefined variables. Compiled templates are kept beside Python's own bytecode:
compiling all of them takes a second of CPU."""

import contextlib
import hashlib
import pickle
import sys
import time
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

import latchkey
from latchkey.dashboard import store_form, texts
from latchkey.domain import formats

FOLDER = Path(__file__).with_name("__pycache__") / "templates"


class CompiledTemplates(FileSystemBytecodeCache):
    def __init__(self, folder: Path, *sources: Path) -> None:
        """`sources` are the Python files that decide how a template is compiled: they hold the environment's options
        and its filters, which the compiler calls for values that are constant."""
        super().__init__(str(folder), f"%s.{sys.implementation.cache_tag}")
        # Whether a template was not found here, so that others have to be compiled, too.
        self.incomplete = False
        self._made_by = version("jinja2").encode() + b"".join(source.read_bytes() for source in sources)

    def get_source_checksum(self, source: str) -> str:
        return hashlib.sha256(self._made_by + source.encode()).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        # A file that is cut short is as good as none.
        with contextlib.suppress(OSError, EOFError, ValueError, pickle.UnpicklingError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.incomplete = True
        if not sys.dont_write_bytecode:
            with contextlib.suppress(OSError):
                Path(self.directory).mkdir(exist_ok=True, parents=True)
                super().dump_bytecode(bucket)


STATIC = files("latchkey.dashboard") / "static"


def render(template: str, values: Mapping[str, Any]) -> str:
    return environment().get_template(template).render(values)


def are_cold() -> bool:
    """Whether templates have to be compiled: a page has just had to."""
    return _compiled().incomplete


def warm() -> None:
    """Compile all templates before a page needs them. That takes a second of CPU."""
    for name in environment().list_templates():
        environment().get_template(name)
        # Let requests run in between.
        time.sleep(0.01)


def folders() -> list[Path]:
    """Of the dashboard and of each subject. No two templates have one name."""
    package = Path(latchkey.__file__).parent
    return [package / "dashboard" / "templates", *sorted(package.glob("subjects/*/templates"))]


@cache
def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(folders()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        # Unlimited, so that none is compiled twice.
        cache_size=-1,
        bytecode_cache=_compiled(),
    )
    made.globals.update(asset=asset, zone=texts.zone)
    made.filters.update(
        moment=moment,
        clock=texts.clock,
        day=texts.day,
        duration=formats.duration,
        ago=texts.ago,
        span=texts.span,
        money=formats.money,
        number=texts.number,
        percent=texts.percent,
        pretty=pretty,
        sentence=texts.sentence,
        parted=texts.parted,
        size=texts.size,
        store=texts.store,
        credential=store_form.label,
    )
    return made


@cache
def _compiled() -> CompiledTemplates:
    return CompiledTemplates(FOLDER, Path(__file__), Path(texts.__file__), Path(formats.__file__))


@cache
def asset(name: str) -> str:
    """The URL of a static file. It contains a hash, so browsers can cache it for ever."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/dashboard/static/{name}?v={digest}"


def moment(at: int | None, absent: str = "–") -> Markup | str:
    """An instant in the project's time zone; the script adds the reader's local time."""
    if at is None:
        return absent
    return Markup('<time datetime="{}">{}</time>').format(texts.iso(at), texts.instant(at))


def pretty(value: Any) -> str:
    """JSON over several lines; bytes and strings that contain JSON are decoded first, others are shown unchanged."""
    if isinstance(value, bytes | str):
        raw = value if isinstance(value, bytes) else value.encode("utf-8", "replace")
        try:
            return msgspec.json.format(raw, indent=2).decode()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return raw.decode("utf-8", "replace")
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
