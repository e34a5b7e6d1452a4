"""Blocks of sums: compressed columns, by cuboid, kind and environment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from latchkey.domain.charts.cuboids import Cuboid
from latchkey.domain.charts.fact import Day, Dimensions
from latchkey.domain.charts.merging import Block
from latchkey.domain.charts.ranges import Range
from latchkey.domain.instants import Ms
from latchkey.storage.charts.layout import Span
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_TAKE_TAIL = query("take_chart_tail")
_DIMENSIONS = query("chart_dimensions_by_id")
_LIST = query("list_chart_blocks")
_LOAD = query("load_chart_blocks")
_REPLACE = query("replace_chart_blocks")
_READ = query("read_chart_blocks")
_SPANS = query("read_chart_spans")
_FOLDED = query("charts_folded")

# Of the blocks that one statement stores; at least one block.
_MOST_BYTES = 16_000_000

# The number of blocks with all dimensions that are in no cuboid yet.
FRESH = -1
# Blocks of a cuboid by month have its number plus this one.
MONTHS = 1000


def by_month(cuboid: Cuboid) -> int:
    return cuboid.number + MONTHS


class Tail(NamedTuple):
    """Columns of the facts that are in no block yet, with sums of equal ones."""

    kinds: Sequence[int]
    dimensions: Sequence[int]
    days: Sequence[Day]
    ns: Sequence[int]
    currencies: Sequence[str]
    amounts: Sequence[Sequence[int | None]]


class Described(NamedTuple):
    environment: str
    dimensions: Dimensions


class New(NamedTuple):
    """A block to store."""

    environment: str
    kind: int
    cuboid: int
    rows: int
    first: Day
    last: Day
    # The sum of all quantities.
    quantity: int
    # See layout.py.
    header: bytes
    data: bytes


class Stored(NamedTuple):
    """A block without its data."""

    kind: int
    cuboid: int
    run: int
    first: Day
    last: Day
    header: bytes


async def take_tail(connection: Connection, project_id: str) -> Tail | None:
    """Empties the tail. None if there was nothing in it."""
    row = await connection.fetchrow(_TAKE_TAIL, project_id)
    assert row is not None, "an aggregate always has a row"
    kinds, dimensions, days, ns, currencies, *amounts = row
    return None if kinds is None else Tail(kinds, dimensions, days, ns, currencies, amounts)


async def described(connection: Connection, project_id: str, ids: Sequence[int]) -> dict[int, Described]:
    """What these numbers of combinations stand for."""
    rows = await connection.fetch(_DIMENSIONS, project_id, ids)
    return {
        id: Described(environment, Dimensions._make([*plain, tuple(variants), tuple(attributes)]))
        for id, environment, *plain, variants, attributes in rows
    }


async def listed(
    connection: Connection, project_id: str, *, cuboid: int | None = None, kind: int | None = None
) -> list[Block]:
    """The newest first."""
    return [Block(*row) for row in await connection.fetch(_LIST, project_id, cuboid, kind)]


async def load(connection: Connection, project_id: str, blocks: Sequence[Block]) -> dict[Block, tuple[bytes, bytes]]:
    """Header and data of each."""
    if not blocks:
        return {}
    rows = await connection.fetch(_LOAD, project_id, *_keys(blocks))
    return {blocks[place - 1]: (header, data) for place, header, data in rows}


async def replace(connection: Connection, project_id: str, gone: Sequence[Block], new: Sequence[New]) -> None:
    """Needs a transaction."""
    for portion in _portions(new) or ([[]] if gone else []):
        columns = zip(*portion, strict=True) if portion else [()] * len(New._fields)
        await connection.execute(_REPLACE, project_id, *_keys(gone), *columns)
        gone = ()


def _portions(new: Sequence[New]) -> list[list[New]]:
    """So that no statement is too large."""
    found: list[list[New]] = []
    room = 0
    for one in new:
        size = len(one.header) + len(one.data)
        if size > room:
            found.append([])
            room = _MOST_BYTES
        found[-1].append(one)
        room -= size
    return found


async def folded(connection: Connection, project_id: str, now: Ms) -> None:
    await connection.execute(_FOLDED, project_id, now)


async def read(
    connection: Connection,
    project_id: str,
    environment: str,
    kinds: Sequence[int],
    levels: Sequence[int],
    ranges: Sequence[tuple[int, Range]],
) -> list[Stored]:
    """Blocks with facts in these ranges of days, each of one cuboid."""
    asked = [(cuboid, one.first, one.last, one.levels) for cuboid, one in ranges]
    rows = await connection.fetch(_READ, project_id, environment, kinds, levels, *zip(*asked, strict=True))
    return [Stored(*row) for row in rows]


async def spans(
    connection: Connection, project_id: str, environment: str, asked: Sequence[tuple[Stored, Sequence[Span]]]
) -> list[list[bytes]]:
    """These bytes of the data of blocks."""
    # PostgreSQL counts bytes from 1.
    rows = [(one.cuboid, one.kind, one.run, span.start + 1, span.length) for one, spans in asked for span in spans]
    if not rows:
        return [[] for _ in asked]
    read = await connection.fetch(_SPANS, project_id, environment, *zip(*rows, strict=True))
    found: dict[int, bytes] = {row["place"]: row["data"] for row in read}
    # Numbered from 1, as they were asked for.
    places = count(1)
    return [[found[next(places)] for _ in spans] for _, spans in asked]


def _keys(blocks: Sequence[Block]) -> list[list[object]]:
    return [[getattr(one, name) for one in blocks] for name in ("cuboid", "environment", "kind", "run")]
