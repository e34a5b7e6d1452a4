"""Writes merged changes into the new database. The caller's transaction also notes how far it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any

from latchkey.storage.distribution.tables import TABLES
from latchkey.storage.errors import NotRelocatableError
from latchkey.storage.relocating import tables
from latchkey.storage.relocating.decoding import UNCHANGED, Row, Transaction
from latchkey.storage.relocating.merging import Key, Left, TableChanges, copied
from latchkey.storage.relocating.tables import Described

_PARTS = "parts"


def touches_parts(transaction: Transaction) -> bool:
    return any(change.table.name == _PARTS for change in transaction.changes)


async def follow_parts(target: Any, transaction: Transaction) -> None:
    """Opens and drops partitions as a transaction did. Outside of transactions, and can be repeated."""
    for change in transaction.changes:
        if change.table.name == _PARTS and change.new is not None:
            named = dict(zip(change.table.columns, change.new, strict=True))
            part, opened, dropped = (_number(named[one]) for one in ("part", "opened_at", "dropped_at"))
            assert part is not None
            assert opened is not None
            await tables.follow_parts(target, [tables.Part(part, opened, dropped)])


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, bytes) else None


async def apply(target: Any, changes: Mapping[str, TableChanges], tables: Mapping[str, Described]) -> None:
    """First the tables of which every node has a copy."""
    order = {place: number for number, place in enumerate(("reference", "by project", "local"))}
    for name in sorted(changes, key=lambda one: (order[TABLES[one]], one)):
        await _apply(target, tables[name], changes[name])


async def _apply(target: Any, table: Described, changes: TableChanges) -> None:
    if set(changes.columns) != set(table.columns):
        raise NotRelocatableError(f"The columns of {table.name} were changed meanwhile. Begin again.")
    left = [one for one in changes.rows.values() if one is not None]
    rows = [await _whole(target, table, changes, one) for one in left]
    removed = changes.removed
    if table.name == _PARTS:
        # `follow_parts` has made them.
        removed = removed | {key for key, one in changes.rows.items() if one is not None}
    if removed:
        await _remove(target, table, removed)
    if rows:
        await target.copy_to_table(
            table.name, schema_name="public", columns=changes.columns, source=BytesIO(copied(rows))
        )


async def _remove(target: Any, table: Described, keys: Iterable[Key]) -> None:
    groups: dict[bytes, list[Key]] = defaultdict(list)
    place = table.key.index("project_id") if TABLES[table.name] == "by project" else None
    for key in keys:
        groups[key[place] if place is not None else b""].append(key)
    arrays = ", ".join(f"${number}::text[]" for number in range(1, len(table.key) + 1))
    named = ", ".join(f"k{number}" for number in range(len(table.key)))
    matched = " and ".join(f't."{one}" = k.k{n}::{table.type_of(one)}' for n, one in enumerate(table.key))
    statement = f"delete from public.{table.name} t using unnest({arrays}) as k ({named}) where {matched}"  # noqa: S608
    if place is not None:
        # One shard.
        statement += f" and t.project_id = ${len(table.key) + 1}"
    for project, own in groups.items():
        columns = [[key[n].decode() for key in own] for n in range(len(table.key))]
        await target.execute(statement, *columns, *([project.decode()] if place is not None else []))


async def _whole(target: Any, table: Described, changes: TableChanges, left: Left) -> Row:
    if left.found_at is None:
        return left.row
    missing = [n for n, value in enumerate(left.row) if value is UNCHANGED]
    found = await _values(target, table, [changes.columns[n] for n in missing], left.found_at)
    values = dict(zip(missing, found, strict=True))
    return tuple(values.get(n, value) for n, value in enumerate(left.row))


async def _values(target: Any, table: Described, columns: Sequence[str], key: Key) -> list[bytes | None]:
    listed = ", ".join(f'"{one}"::text' for one in columns)
    matched = " and ".join(f'"{one}" = ${n}::text::{table.type_of(one)}' for n, one in enumerate(table.key, 1))
    row = await target.fetchrow(
        f"select {listed} from public.{table.name} where {matched}",  # noqa: S608
        *(one.decode() for one in key),
    )
    if row is None:
        raise NotRelocatableError(f"A row of {table.name} that was changed is not in the cluster. Begin again.")
    return [None if one is None else one.encode() for one in row]
