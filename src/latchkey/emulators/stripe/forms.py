"""Stripe's forms: `items[0][price]=price_1&expand[]=customer` as nested values."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl

_NAME = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")
_PART = re.compile(r"\[([^\[\]]*)\]")
_DEEPEST = 6


class FormError(ValueError):
    """Its text is shown."""


def parse(text: str) -> dict[str, Any]:
    """Lists are written with numbers, or with empty brackets. All values are text."""
    found: dict[str, Any] = {}
    for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=1000):
        match = _NAME.fullmatch(name)
        parts = [match[1], *_PART.findall(match[2])] if match else []
        if match is None or len(parts) > _DEEPEST:
            raise FormError(f"Invalid parameter name: {name[:100]}")
        place = found
        for part, following in zip(parts, [*parts[1:], None], strict=True):
            key = part or str(len(place))
            if following is None:
                place[key] = value
                break
            inside = place.setdefault(key, {})
            if not isinstance(inside, dict):
                raise FormError(f"Invalid parameter: {name[:100]}")
            place = inside
    return found


def items(value: Any) -> list[Any]:
    """A list that was sent in a form."""
    if value in (None, ""):
        return []
    if not isinstance(value, dict):
        raise FormError("Invalid array")
    try:
        return [value[key] for key in sorted(value, key=int)]
    except ValueError:
        raise FormError("Invalid array") from None
