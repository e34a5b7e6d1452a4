"""Moves the tail of a project into blocks of sums, and merges blocks.

1. The tail becomes *fresh* blocks: sums by all dimensions, one for each kind and environment.
2. When the fresh blocks of a kind have many rows, they go to the cuboids: sums by fewer dimensions, by day and by
   month. Small projects never have that many, and are answered from fresh blocks.

A question adds up the fresh blocks and those of one cuboid, so every fact must be in exactly one of: the tail, a fresh
block, every cuboid. What is written in a step is written in one transaction, which has locked the project's charts.
The second step takes seconds for a large project. So the roller computes it without the lock, while its batches go on
(`cubing.py`), and writes it if the blocks are still the same.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from latchkey.domain.charts import merging
from latchkey.domain.charts.cuboids import CUBOIDS, FULL, PARENTS
from latchkey.domain.charts.fact import Kind
from latchkey.domain.charts.merging import Block, Quarter, loose, merged_with, quarter_of
from latchkey.domain.instants import Ms
from latchkey.storage.charts import blocks
from latchkey.storage.charts.blocks import FRESH, Described, New, Tail, by_month
from latchkey.storage.charts.kinds import KINDS
from latchkey.storage.database import Connection

if TYPE_CHECKING:
    from latchkey.storage.charts.packing import Table

# When the fresh blocks of a kind have this many rows, they go to the cuboids.
FRESH_ROWS = 100_000

# An environment and a kind; with the number of a cuboid.
Part: TypeAlias = tuple[str, int]
_Key: TypeAlias = tuple[str, int, int]


async def fold(connection: Connection, project_id: str, now: Ms) -> None:
    """Moves the tail into fresh blocks; then, of at most one kind, fresh blocks into the cuboids."""
    part = await fold_tail(connection, project_id, now)
    if part is not None:
        await put(connection, project_id, await cubed(connection, project_id, part))


async def fold_tail(connection: Connection, project_id: str, now: Ms) -> Part | None:
    """Moves the tail into fresh blocks. Returns of which environment and kind these should go to the cuboids."""
    tail = await blocks.take_tail(connection, project_id)
    fresh = _by_key(await blocks.listed(connection, project_id, cuboid=FRESH))
    sizes = {key: sum(one.rows for one in of) for key, of in fresh.items()}
    if tail is not None:
        described = await blocks.described(connection, project_id, sorted(set(tail.dimensions)))
        made = await asyncio.to_thread(_tables, tail, described)
        # Those that are about to go to the cuboids are not changed: somebody may be adding them up.
        known = {key: of for key, of in fresh.items() if sizes[key] < FRESH_ROWS}
        change = await _appended(connection, project_id, {(*part, FRESH): one for part, one in made.items()}, known)
        await blocks.replace(connection, project_id, *change)
        for gone in change.gone:
            sizes[gone.environment, gone.kind, FRESH] -= gone.rows
        for new in change.new:
            key = new.environment, new.kind, FRESH
            sizes[key] = sizes.get(key, 0) + new.rows
    await blocks.folded(connection, project_id, now)
    largest = max(sizes, key=lambda key: sizes[key], default=None)
    return None if largest is None or sizes[largest] < FRESH_ROWS else largest[:2]


async def cubed(connection: Connection, project_id: str, part: Part) -> Change:
    """What moves the fresh blocks of an environment and kind into the cuboids. Nothing is written yet, and no lock is
    needed, only one snapshot."""
    environment, kind = part
    listed = await blocks.listed(connection, project_id, kind=kind)
    known = _by_key(one for one in listed if one.environment == environment)
    fresh = known.pop((*part, FRESH), [])
    loaded = await blocks.load(connection, project_id, fresh)
    if not loaded:
        return Change([], [])
    made = await asyncio.to_thread(_extracts, KINDS[kind], list(loaded.values()))
    tables = {(*part, cuboid): table for cuboid, table in made.items()}
    change = await _appended(connection, project_id, tables, known)
    return Change([*fresh, *change.gone], change.new)


async def put(connection: Connection, project_id: str, change: Change) -> bool:
    """Writes it, unless some of the blocks were replaced meanwhile. Needs the lock of the project's charts."""
    kinds = {one.kind for one in change.gone}
    present = {one for kind in kinds for one in await blocks.listed(connection, project_id, kind=kind)}
    if not present.issuperset(change.gone):
        return False
    await blocks.replace(connection, project_id, *change)
    return True


class Change(NamedTuple):
    """Blocks that are replaced by others."""

    gone: Sequence[Block]
    new: Sequence[New]


class _Merging(NamedTuple):
    """A table, and the blocks that are added to it."""

    key: _Key
    table: Table
    old: Sequence[Block]


async def _appended(
    connection: Connection,
    project_id: str,
    made: Mapping[_Key, Table],
    known: Mapping[_Key, Sequence[Block]],
) -> Change:
    """What stores tables, merged with the newest blocks of the same key."""
    plans: list[_Merging] = []
    for key, table in made.items():
        if table.num_rows:
            blocks_of = known.get(key, ())
            others = blocks_of if key[2] == FRESH else loose(table.num_rows, blocks_of)
            plans.append(_Merging(key, table, merged_with(table.num_rows, others)))
    merged = await _merged(connection, project_id, plans)
    gone = {one for plan in plans for one in plan.old}
    parts: list[_Merging] = []
    for key, table, quarter in await asyncio.to_thread(_split, merged):
        of_quarter = [one for one in known.get(key, ()) if one.quarter == quarter and one not in gone]
        parts.append(_Merging(key, table, [] if quarter is None else merged_with(table.num_rows, of_quarter)))
    final = await _merged(connection, project_id, parts)
    gone |= {one for part in parts for one in part.old}
    return Change(list(gone), await asyncio.to_thread(lambda: [_new(key, table) for key, table in final]))


async def _merged(connection: Connection, project_id: str, plans: Sequence[_Merging]) -> list[tuple[_Key, Table]]:
    """Without those of which nothing is left: all sums are zero."""
    loaded = await blocks.load(connection, project_id, [one for plan in plans for one in plan.old])

    def merge(plan: _Merging) -> Table:
        from latchkey.storage.charts import columns
        from latchkey.storage.charts.packing import Packed

        old = [columns.decode(Packed(*loaded.pop(one))) for one in plan.old]
        return columns.added([plan.table, *old]) if old else plan.table

    made = await asyncio.to_thread(lambda: [(plan.key, merge(plan)) for plan in plans])
    return [(key, table) for key, table in made if table.num_rows]


def _split(merged: Iterable[tuple[_Key, Table]]) -> list[tuple[_Key, Table, Quarter | None]]:
    """With the quarter of each part; None: it has days of several."""
    from latchkey.storage.charts import columns

    found: list[tuple[_Key, Table, Quarter | None]] = []
    for key, table in merged:
        is_split = key[2] != FRESH and table.num_rows > merging.SPLIT_ROWS
        for part in columns.by_quarter(table) if is_split else [table]:
            first, last = map(quarter_of, columns.span(part))
            found.append((key, part, first if first == last and key[2] != FRESH else None))
    return found


def _by_key(listed: Iterable[Block]) -> dict[_Key, list[Block]]:
    found: dict[_Key, list[Block]] = {}
    for one in listed:
        found.setdefault((one.environment, one.kind, one.cuboid), []).append(one)
    return found


def _tables(tail: Tail, described: Mapping[int, Described]) -> dict[Part, Table]:
    """The sums of the tail by environment and kind."""
    from latchkey.storage.charts import columns

    rows: dict[Part, list[int]] = defaultdict(list)
    for place, (kind, dimension) in enumerate(zip(tail.kinds, tail.dimensions, strict=True)):
        rows[described[dimension].environment, kind].append(place)
    found: dict[Part, Table] = {}
    for part, places in rows.items():
        used = sorted({tail.dimensions[place] for place in places})
        number = {dimension: place for place, dimension in enumerate(used)}
        raw = columns.Raw(
            [number[tail.dimensions[place]] for place in places],
            [tail.days[place] for place in places],
            [tail.ns[place] for place in places],
            [tail.currencies[place] for place in places],
            [[amounts[place] for place in places] for amounts in tail.amounts],
        )
        found[part] = columns.from_rows(raw, [described[one].dimensions for one in used])
    return found


def _extracts(kind: Kind, fresh: Sequence[tuple[bytes, bytes]]) -> dict[int, Table]:
    """The sums of fresh blocks of a kind for every cuboid, by day and by month, by the number they are stored under."""
    from latchkey.storage.charts import columns
    from latchkey.storage.charts.packing import Packed

    days = {FULL.number: columns.added([columns.decode(Packed(*one)) for one in fresh])}
    months = {by_month(FULL): columns.by_month(days[FULL.number])}
    for cuboid in reversed(CUBOIDS):
        parent = PARENTS[cuboid.number]
        days[cuboid.number] = columns.extract(days[parent.number], cuboid, kind)
        months[by_month(cuboid)] = columns.extract(months[by_month(parent)], cuboid, kind)
    return days | months


def _new(key: _Key, table: Table) -> New:
    from latchkey.storage.charts import columns
    from latchkey.storage.charts.packing import pack

    return New(*key, table.num_rows, *columns.span(table), columns.quantity(table), *pack(table))
