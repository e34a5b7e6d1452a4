"""JSON that the strict decoder refuses: huge numbers, lone surrogates, very deep nesting; and strings that every
database can store."""

import hashlib
import json
import re
from math import isfinite
from typing import Any, NoReturn

from latchkey.consumer.rules.timestamps import FIRST, LAST, Ms

# Long enough for every id in use, short enough for an index row of any database.
LONGEST = 255
# PostgreSQL stores no NUL, and no database stores a lone surrogate as UTF-8.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_MARK = "~"


def storable(text: str) -> str:
    """The text itself if it can be stored. Otherwise its beginning and a hash of the whole."""
    cleaned = clean(text)
    if cleaned == text and len(text) <= LONGEST:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return cleaned[: LONGEST - len(digest) - len(_MARK)] + _MARK + digest


def clean(text: str) -> str:
    """The text with U+FFFD for every character that cannot be stored, at any length."""
    return _UNSTORABLE.sub("\ufffd", text)


# Deeper values are replaced by null: no field that we use is deeper than 4.
DEEPEST = 100
# The range that JSON numbers and BIGINT represent exactly.
LARGEST = 2**53
# Longer integers fit no field, and Python limits the conversion of long ones.
_LONGEST_INTEGER = 300
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def loads(body: bytes) -> Any:
    """The value of any valid JSON text; ValueError for everything else."""
    text = _without_depths(body.decode())
    try:
        return json.loads(text, parse_int=_integer, parse_float=_fraction, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("A bracket is not closed.") from None


def dumps(value: Any) -> bytes:
    """Back to JSON, with an escape for every character that UTF-8 cannot encode."""
    return json.dumps(value).encode()


def text(value: Any) -> str | None:
    """A string, or a number as a string."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return storable(str(value))
    return None


def texts(value: Any) -> list[str] | None:
    """A list of strings; a single string stands for a list of one. Other values in a list are left out."""
    if isinstance(value, list):
        return [found for found in map(text, value) if found]
    single = text(value)
    return [single] if single else None


def number(value: Any) -> int | float | None:
    """A number that can be stored, even if given as a string."""
    found = _number(value)
    return found if found is not None and abs(found) <= LARGEST else None


def whole(value: Any) -> int | None:
    found = number(value)
    return found if isinstance(found, int) else None


def instant(value: Any) -> Ms | None:
    """Epoch milliseconds, limited to the years 1 to 9999."""
    found = _number(value)
    return round(min(max(found, FIRST), LAST)) if found is not None else None


def flag(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return bool(value) if value in (0, 1) else None


def _number(value: Any) -> int | float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= _LONGEST_INTEGER else digits


def _fraction(digits: str) -> float | str:
    """A number that no float can represent stays a string."""
    return found if isfinite(found := float(digits)) else digits


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON.")


def _without_depths(body: str) -> str:
    kept: list[str] = []
    depth = begun = 0
    for found in _TOKEN.finditer(body):
        mark = found.group()
        if mark in "[{":
            depth += 1
            if depth == DEEPEST:
                kept += (body[begun : found.start()], "null")
        elif mark in "]}":
            if depth == DEEPEST:
                begun = found.end()
            depth -= 1
    # Unclosed brackets are invalid JSON; the decoder reports that.
    return body if depth >= DEEPEST else "".join(kept) + body[begun:]
