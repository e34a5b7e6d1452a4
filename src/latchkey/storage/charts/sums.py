"""The sums from which a question about facts is answered."""

from __future__ import annotations

from collections.abc import Sequence
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


class Tagged(NamedTuple):
    # The variant or value, where the cells have one.
    tag: str
    sum: Sum


async def read(connection: Connection, asked: Asked, cuboid: int, ranges: Ranges, tag: Tag = Tag()) -> list[Tagged]:  # noqa: B008 - immutable
    """The sums of a cuboid, without the tail. With `tag` only cells with such a variant or attribute, by it."""
    rows = await connection.fetch(
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
    return [Tagged(row["tag"], _sum(row)) for row in rows]


async def read_rest(connection: Connection, asked: Asked, clock: str, last: Day, now: Ms) -> list[Sum]:
    """What is in no cuboid yet; of a test clock: everything."""
    rows = await connection.fetch(
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
    return [_sum(row) for row in rows]


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


def _sum(row: Record) -> Sum:
    return Sum(
        KINDS[row["kind"]],
        row["n"],
        row["period"],
        row["segment"],
        row["currency"],
        row["quantity"],
        Money(
            row["micros"] or 0,
            row["tax"] or 0,
            row["commission"] or 0,
            row["usd"] or 0,
            row["tax_usd"] or 0,
            row["commission_usd"] or 0,
            row["unconverted"] or 0,
        ),
    )
