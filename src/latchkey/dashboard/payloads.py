"""The payload of a journal entry, readable: signed parts are shown with what they say.

Nothing is verified here: that was done before the entry was stored."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from typing import Any

from msgspec import MsgspecError, json

_SIGNED = re.compile(r"[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]+")
# A notification is signed, and so are the parts in it.
_DEEPEST = 4


def opened(payload: str) -> Any:
    """What the payload says, or None where it is neither JSON nor signed JSON."""
    try:
        return _opened(json.decode(payload), _DEEPEST)
    except (MsgspecError, ValueError, RecursionError):
        return _claims(payload.strip(), _DEEPEST)


def _opened(value: Any, depth: int) -> Any:
    if depth and isinstance(value, dict):
        return {name: _opened(one, depth - 1) for name, one in value.items()}
    if depth and isinstance(value, list):
        return [_opened(one, depth - 1) for one in value]
    if depth and isinstance(value, str):
        claims = _claims(value, depth - 1)
        return value if claims is None else claims
    return value


def _claims(text: str, depth: int) -> Any:
    if not _SIGNED.fullmatch(text):
        return None
    middle = text.split(".")[1]
    try:
        claims = json.decode(urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
    except (MsgspecError, ValueError, RecursionError):
        return None
    return _opened(claims, depth) if isinstance(claims, dict) else None
