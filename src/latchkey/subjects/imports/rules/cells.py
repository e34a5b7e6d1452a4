"""Cells of a file as values. Files of the vendor differ in small things, so reading is lenient where nothing can be
mistaken, and refuses the rest."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from latchkey.domain.customers.customer import MAX_COUNT, Attribute, problem_with_attribute
from latchkey.domain.instants import EARLIEST, LATEST, Ms, to_iso
from latchkey.domain.money.amounts import HIGHEST, MICROS, decimal_of
from latchkey.domain.user_id import problem_with
from latchkey.subjects.imports.rules.row import RowError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TRUE, _FALSE = frozenset({"true", "t", "1", "yes"}), frozenset({"false", "f", "0", "no"})
_DATE = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?\s*"
    r"(Z|UTC|[+-]\d{2}:?\d{2})?",
    re.ASCII,
)
# Numbers below this are seconds: as milliseconds they would be before April 1970.
_SECONDS_BELOW = 10_000_000_000
_CURRENCY = re.compile(r"[A-Za-z]{3}")
_COUNTRY = re.compile(r"[A-Za-z]{2}")
_LONGEST_ID = 512
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def text(cells: Mapping[str, Any], name: str) -> str | None:
    """None for an empty cell."""
    value = cells.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RowError(f"{name} is not a text.")
    return str(value)


def store_id(cells: Mapping[str, Any], name: str) -> str | None:
    """An id or a name of a store: of limited length, without control characters."""
    value = text(cells, name)
    if value is not None and (len(value) > _LONGEST_ID or _CONTROL.search(value)):
        raise RowError(f"{name} is too long, or contains control characters.")
    return value


def required(value: str | None, name: str) -> str:
    if value is None:
        raise RowError(f"{name} is empty.")
    return value


def user_id(cells: Mapping[str, Any], name: str) -> str | None:
    value = text(cells, name)
    if value is not None:
        check_user_id(value, name)
    return value


def check_user_id(value: str, name: str) -> None:
    if problem_with(value) is not None:
        raise RowError(f"{name} is not accepted as an app user id.")


def instant(cells: Mapping[str, Any], name: str) -> Ms | None:
    """ISO 8601, with or without a zone (then UTC), or an epoch number in seconds or milliseconds."""
    found = _any_instant(cells, name)
    if found is not None and not EARLIEST <= found <= LATEST:
        raise RowError(f"{name} is before 2000 or after 2200.")
    return found


def end(cells: Mapping[str, Any], name: str, *, for_life: Ms | None) -> Ms | None:
    """An end. One after 2200 means access for life, which the vendor writes as 200 years: then `for_life`."""
    found = _any_instant(cells, name)
    return for_life if found is not None and found > LATEST else instant(cells, name)


def _any_instant(cells: Mapping[str, Any], name: str) -> Ms | None:
    value = cells.get(name)
    if value is None or value == "":
        return None
    found = _number(value) if not isinstance(value, str) else _instant(value.strip())
    if found is None:
        raise RowError(f"{name} is not a date such as 2026-01-31T08:00:00.000Z.")
    return found


def _number(value: object) -> Ms | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**60:
        return None
    return round(value * 1000) if abs(value) < _SECONDS_BELOW else int(value)


# The rows of one customer repeat the same few moments.
@lru_cache(maxsize=65_536)
def _instant(written: str) -> Ms | None:
    if written.isascii() and written.isdigit() and len(written) < 16:
        return _number(int(written))
    match = _DATE.fullmatch(written)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        moment = datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), tzinfo=UTC
        )
    except ValueError:
        return None
    at = (moment - _EPOCH) // timedelta(milliseconds=1) + int(f"{fraction or '0':0<3.3}")
    if zone is None or zone in ("Z", "UTC"):
        return at
    digits = zone[1:].replace(":", "")
    offset = (int(digits[:2]) * 60 + int(digits[2:])) * 60_000
    return at - offset if zone[0] == "+" else at + offset


def day(at: Ms) -> str:
    return to_iso(at)[:10]


def boolean(cells: Mapping[str, Any], name: str) -> bool | None:
    value = cells.get(name)
    if value is None or value == "" or isinstance(value, bool):
        return None if value == "" else value
    written = str(value).strip().lower()
    if written not in _TRUE | _FALSE:
        raise RowError(f"{name} is neither true nor false.")
    return written in _TRUE


def integer(cells: Mapping[str, Any], name: str) -> int | None:
    written = text(cells, name)
    if written is None:
        return None
    value = decimal_of(written)
    if value is None:
        raise RowError(f"{name} is not a whole number.")
    if not -(2**53) < value < 2**53:
        raise RowError(f"{name} is too large.")
    return int(value)


def decimal(cells: Mapping[str, Any], name: str) -> Decimal | None:
    written = text(cells, name)
    if written is None:
        return None
    value = decimal_of(written)
    if value is None:
        raise RowError(f"{name} is not a number.")
    if abs(value) > HIGHEST:
        raise RowError(f"{name} is not an amount from 0 to {HIGHEST:,}.")
    return value


def micros(value: Decimal) -> int:
    """Rounded to millionths: floats of other programs have longer tails."""
    return int((value * MICROS).to_integral_value())


def fraction(cells: Mapping[str, Any], name: str) -> float | None:
    value = decimal(cells, name)
    if value is None:
        return None
    if not 0 <= value <= 1:
        raise RowError(f"{name} is not a share from 0 to 1.")
    return float(value)


def currency(cells: Mapping[str, Any], name: str) -> str | None:
    value = text(cells, name)
    if value is not None and _CURRENCY.fullmatch(value) is None:
        raise RowError(f"{name} is not a currency code of three letters.")
    return value.upper() if value is not None else None


def country(cells: Mapping[str, Any], name: str) -> str | None:
    """Two letters; anything else is as good as unknown."""
    value = text(cells, name)
    return value.upper() if value is not None and _COUNTRY.fullmatch(value) else None


def array(cells: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """`["a", "b"]`, also with single quotes."""
    value = _loaded(cells.get(name), name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise RowError(f"{name} is not a JSON array of texts.")
    return tuple(value)


def _loaded(value: Any, name: str) -> Any:
    """What a text holds as JSON; None if it is empty."""
    if not isinstance(value, str) or not value.strip():
        return None if isinstance(value, str) else value
    for written in (value, value if '"' in value else value.replace("'", '"')):
        with suppress(ValueError, RecursionError):
            return json.loads(written)
    raise RowError(f"{name} is not valid JSON.")


def object_of(cells: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = _loaded(cells.get(name), name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RowError(f"{name} is not a JSON object.")
    return value


def attributes(cells: Mapping[str, Any], name: str, fallback_at: Ms, left_out: list[str]) -> dict[str, Attribute]:
    """`{"name": {"value": …, "updated_at_ms": …}}`; a plain text as the value is accepted too. An attribute that cannot
    be stored here is left out, with its reason in `left_out`: it must not cost the customer its purchases."""
    found: dict[str, Attribute] = {}
    for key, given in object_of(cells, name).items():
        value, at = (given.get("value"), given.get("updated_at_ms")) if isinstance(given, dict) else (given, None)
        if value is None:
            continue
        if isinstance(value, dict | list):
            left_out.append(_WRONG_VALUE)
            continue
        if isinstance(value, bool):
            value = "true" if value else "false"
        updated_at = _moment(at) or fallback_at
        written = str(value)
        if reason := problem_with_attribute_here(key, written):
            left_out.append(reason)
        elif len(found) == MAX_COUNT:
            left_out.append(_TOO_MANY)
        else:
            found[key] = Attribute(written, updated_at)
    return found


def problem_with_attribute_here(name: str, value: str) -> str | None:
    """For the report, which names no value of the row: an attribute's name may be personal too."""
    if _CONTROL_VALUE.search(value):
        return _WRONG_VALUE
    if problem_with_attribute(name, value) is None:
        return None
    return _WRONG_VALUE if problem_with_attribute(name, None) is None else _WRONG_NAME


_CONTROL_VALUE = re.compile("[\x00\ud800-\udfff]")
_REST = "Everything else of the row was imported."
_WRONG_NAME = f"An attribute was left out: its name is too long, or has characters that are not allowed. {_REST}"
_WRONG_VALUE = f"An attribute was left out: its value is too long, or not allowed. {_REST}"
_TOO_MANY = f"An attribute was left out: a customer has at most {MAX_COUNT}. {_REST}"


def _moment(value: object) -> Ms | None:
    at = _instant(value.strip()) if isinstance(value, str) else _number(value)
    return at if at is not None and EARLIEST <= at <= LATEST else None
