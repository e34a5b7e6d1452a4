"""The sums from which a question about facts is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec import Struct, json

from latchkey.domain.charts.fact import Kind, Money
from latchkey.domain.charts.ranges import Range, Ranges
from latchkey.domain.charts.sums import Day, Resolution, Sum
from latchkey.domain.instants import Ms
from latchkey.storage.charts.kinds import CODES, KINDS
from latchkey.storage.database import Connection, Record
from latchkey.storage.sql import query

_SUMS = query("chart_sums")
_REST = query("chart_rest")
_CLOCK = query("chart_clock")
_VALUES = query("chart_values")

COLUMNS = ("product", "duration", "store", "country", "platform", "app_version", "offering")


class TagFilter(Struct, frozen=True):
    """Facts with one of these variants or attributes; `bare`: also facts with none that begins with the prefix."""

    tag: str
    prefix: str
    allowed: list[str]
    bare: bool


class Tag(NamedTuple):
    """Variants of an experiment, or values of an attribute: "variants" or "attributes", and what they begin with."""

    column: str = ""
    prefix: str = ""


NO_TAG = Tag()


class Asked(Struct, frozen=True):
    """What is read, as columns of the tables."""

    project_id: str
    environment: str
    # Allowed values by column; columns without a filter are left out.
    filters: dict[str, list[str]]
    tags: list[TagFilter]
    # The column, and for variants and attributes what they begin with.
    segment: Tag
    kinds: Sequence[Kind]
    levels: Sequence[Kind]
    first: Day
    resolution: Resolution

    def parameters(self) -> list[Any]:
        """The parameters $4 to $14 of both queries."""
        return [
            *(self.filters.get(name) for name in COLUMNS),
            json.encode(self.tags).decode(),
            *self.segment,
            [CODES[one] for one in self.kinds],
        ]


class Found(NamedTuple):
    sums: list[Sum]
    # The variant or value of each, where the cells have one.
    tags: list[str]


async def read(connection: Connection, asked: Asked, cuboid: int, ranges: Ranges, tag: Tag = NO_TAG) -> Found:
    """The sums of a cuboid, without the tail. With `tag` only cells with such a variant or attribute, by it."""
    row = await connection.fetchrow(
        _SUMS,
        asked.project_id,
        asked.environment,
        cuboid,
        *asked.parameters(),
        [CODES[one] for one in asked.levels],
        asked.first,
        asked.resolution,
        *tag,
        *_columns(ranges.days),
        *_columns(ranges.months),
    )
    return _found(row)


async def read_rest(connection: Connection, asked: Asked, clock: str, last: Day, now: Ms) -> list[Sum]:
    """What is in no cuboid yet; of a test clock: everything. Flows before the first day are among them."""
    row = await connection.fetchrow(
        _REST,
        asked.project_id,
        asked.environment,
        clock,
        *asked.parameters(),
        last,
        asked.first,
        asked.resolution,
        now,
    )
    return _found(row).sums


async def clock_time(connection: Connection, project_id: str, clock: str) -> Ms | None:
    found: Ms | None = await connection.fetchval(_CLOCK, project_id, clock)
    return found


async def values(
    connection: Connection, project_id: str, environment: str, column: str, prefix: str, cuboid: int, limit: int
) -> list[str]:
    rows = await connection.fetch(_VALUES, project_id, environment, column, prefix, cuboid, limit)
    return [row["value"] for row in rows]


def _columns(ranges: Sequence[Range]) -> tuple[list[Day], list[Day], list[bool]]:
    return [one.first for one in ranges], [one.last for one in ranges], [one.levels for one in ranges]


def _found(row: Record | None) -> Found:
    """A row of arrays, in the order of the fields of `Sum` and `Money`. Thousands of sums are usual, so no line of
    Python runs for each of them."""
    assert row is not None, "an aggregate always has a row"
    kinds, ns, periods, segments, currencies, quantities, *money, tags = row
    if kinds is None:
        return Found([], [])
    named = map(KINDS.__getitem__, kinds)
    amounts = map(_new_money, zip(*money, strict=True))
    sums = map(_new_sum, zip(named, ns, periods, segments, currencies, quantities, amounts, strict=True))
    return Found(list(sums), tags)


# As `_make`, without a call of Python code.
_new_sum: Callable[[Iterable[Any]], Sum] = partial(tuple.__new__, Sum)
_new_money: Callable[[Iterable[int]], Money] = partial(tuple.__new__, Money)
