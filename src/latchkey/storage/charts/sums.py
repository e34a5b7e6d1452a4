"""Sums of the facts that are in no block yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

from msgspec import Struct, json

from latchkey.domain.charts.fact import NO_MONEY, Day, Kind, Money, Resolution, Sum
from latchkey.domain.instants import Ms
from latchkey.storage.charts.kinds import CODES, KINDS
from latchkey.storage.database import Connection, Record
from latchkey.storage.sql import query

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
    first: Day
    resolution: Resolution

    def parameters(self) -> list[Any]:
        """The parameters $4 to $14."""
        return [
            *(self.filters.get(name) for name in COLUMNS),
            json.encode(self.tags).decode(),
            *self.segment,
            [CODES[one] for one in self.kinds],
        ]


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
    return _found(row)


async def clock_time(connection: Connection, project_id: str, clock: str) -> Ms | None:
    found: Ms | None = await connection.fetchval(_CLOCK, project_id, clock)
    return found


async def values(connection: Connection, project_id: str, environment: str, clock: str, column: str) -> dict[str, int]:
    """How many combinations have each value of a dimension, of facts that are in no block; on a clock: of all facts."""
    rows = await connection.fetch(_VALUES, project_id, environment, clock, column)
    return {row["value"]: row["uses"] for row in rows}


def _found(row: Record | None) -> list[Sum]:
    assert row is not None, "an aggregate always has a row"
    kinds, *columns = row
    return [] if kinds is None else from_columns(kinds, *columns)


def from_columns(
    kinds: Iterable[int],
    ns: Iterable[int],
    periods: Iterable[Day | None],
    segments: Iterable[str],
    currencies: Iterable[str],
    quantities: Iterable[int],
    *money: Iterable[int],
) -> list[Sum]:
    """Columns in the order of the fields of `Sum` and `Money`; without those of money there is none. Thousands of sums
    are usual, so no line of Python runs for each of them."""
    named = map(KINDS.__getitem__, kinds)
    amounts = map(_new_money, zip(*money, strict=True)) if money else repeat(NO_MONEY)
    # The last of them may have no end.
    return list(map(_new_sum, zip(named, ns, periods, segments, currencies, quantities, amounts, strict=False)))


# As `_make`, without a call of Python code.
_new_sum: Callable[[Iterable[Any]], Sum] = partial(tuple.__new__, Sum)
_new_money: Callable[[Iterable[int]], Money] = partial(tuple.__new__, Money)
