"""How CSV and JSON Lines write a value of each kind. Nothing is rounded, and nothing depends on the machine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any

from msgspec import Raw, json

from latchkey.domain.instants import DAY, HOUR, MINUTE, SECOND, Ms
from latchkey.domain.money import MICROS
from latchkey.wire.rows import Kind, Row, columns

Written = Callable[[Any], Any]


def instant(at: Ms) -> str:
    """2026-11-16T03:12:59.123Z"""
    day, rest = divmod(at, DAY)
    hours, rest = divmod(rest, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    seconds, rest = divmod(rest, SECOND)
    return f"{_day(day)}T{hours:02}:{minutes:02}:{seconds:02}.{rest:03}Z"


@lru_cache(maxsize=10_000)
def _day(days: int) -> str:
    return datetime.fromtimestamp(days * DAY / SECOND, UTC).strftime("%Y-%m-%d")


def money(micros: int) -> str:
    """9.99, 1500 or -0.000001: as few decimals as the amount needs."""
    units, rest = divmod(abs(micros), MICROS)
    sign = "-" if micros < 0 else ""
    return f"{sign}{units}.{rest:06}".rstrip("0") if rest else f"{sign}{units}"


def _list(items: tuple[str, ...]) -> str:
    return json.encode(items).decode()


_CSV: dict[Kind, Written] = {
    Kind.TEXT: str,
    Kind.INTEGER: str,
    Kind.BOOLEAN: lambda value: "true" if value else "false",
    Kind.INSTANT: instant,
    Kind.DATE: str,
    Kind.MONEY: money,
    Kind.RATE: str,
    Kind.FRACTION: repr,
    Kind.LIST: _list,
    Kind.JSON: str,
}
# Kinds that are not named here stay as they are.
_JSON: dict[Kind, Written] = {
    Kind.INSTANT: instant,
    Kind.MONEY: money,
    Kind.JSON: lambda value: Raw(value.encode()),
}


@cache
def csv_writers(row: type[Row]) -> tuple[Written, ...]:
    return tuple(_CSV[one.kind] for one in columns(row))


@cache
def json_writers(row: type[Row]) -> tuple[tuple[str, Written | None], ...]:
    return tuple((one.name, _JSON.get(one.kind)) for one in columns(row))
