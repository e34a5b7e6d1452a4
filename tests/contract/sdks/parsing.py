"""Checks a reply against the requirements of an SDK's parser."""

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from tests.contract.sdks.requirements import Requirements

# RFC 3339 with a zone; the strictest of the three SDKs takes nothing else.
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_DURATION = re.compile(r"P(?=.)(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(\d+H)?(\d+M)?(\d+S)?)?")

_MISSING = object()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "date": lambda value: isinstance(value, str) and _DATE.fullmatch(value) is not None,
    "duration": lambda value: isinstance(value, str) and _DURATION.fullmatch(value) is not None,
    "url": lambda value: isinstance(value, str) and urlsplit(value).scheme == "https",
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63,
    "number": _is_number,
    "map": lambda value: isinstance(value, dict),
    "list": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}


def problems(body: Any, requirements: Requirements) -> list[str]:
    """What the parser would stumble over."""
    return [
        f"{where}: {shown(value)} is not {kind}"
        for path, kind in requirements.items()
        for where, value in found(body, path.split("."))
        if not fits(value, kind)
    ]


def found(value: Any, path: list[str], where: str = "") -> Iterator[tuple[str, Any]]:
    if not path:
        yield where, value
        return
    first, rest = path[0], path[1:]
    if first == "*":
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for name, item in items:
            yield from found(item, rest, f"{where}.{name}")
    elif isinstance(value, dict) and first in value:
        yield from found(value[first], rest, f"{where}.{first}")
    elif isinstance(value, dict):
        yield f"{where}.{first}", _MISSING


def fits(value: Any, kind: str) -> bool:
    if kind.startswith("["):
        if value is _MISSING:
            return True
        kind = kind[1:-1]
    if kind.endswith("?"):
        if value is None:
            return True
        kind = kind[:-1]
    if kind.startswith("one of:"):
        return value in kind.removeprefix("one of:").split(",")
    return value is not _MISSING and _KINDS[kind](value)


def shown(value: Any) -> str:
    return "what is missing" if value is _MISSING else repr(value)
