"""JSON objects that have a field twice. Parsers take the last one silently, and so half of what was sent is ignored."""

from __future__ import annotations

from json import JSONDecoder
from typing import Any


class RepeatedFieldError(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name[:100]


def check_distinct(text: str) -> None:
    """Raises RepeatedFieldError. The text must be valid JSON."""
    _decode(text)


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        raise RepeatedFieldError(next(name for name in names if names.count(name) > 1))
    return fields


_decode = JSONDecoder(object_pairs_hook=_fields, parse_int=float).decode
