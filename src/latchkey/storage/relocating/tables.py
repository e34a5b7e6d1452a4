"""The tables of both databases, as far as the copy has to know them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from latchkey.storage.distribution.tables import TABLES
from latchkey.storage.errors import NotRelocatableError

# Each database has its own. `customer_keys` is filled from what was copied.
ITS_OWN: Final = frozenset({"schema_migrations", "server_identity", "customer_keys"})

_DESCRIBED = """
select c.relname::text as name,
    array(
        select a.attname::text from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attname
    ) as columns,
    array(
        select format_type(a.atttypid, a.atttypmod) from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attname
    ) as types
from pg_class c
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and c.relname = any($1::text[])
"""


@dataclass(frozen=True, slots=True)
class Described:
    name: str
    # Sorted by name, each with its type.
    columns: tuple[str, ...]
    types: tuple[str, ...]

    @property
    def listed(self) -> str:
        return ", ".join(f'"{one}"' for one in self.columns)


async def described(connection: Any) -> dict[str, Described]:
    """In the order of `tables.py`."""
    rows = {row["name"]: row for row in await connection.fetch(_DESCRIBED, list(TABLES))}
    return {
        name: Described(name, tuple(rows[name]["columns"]), tuple(rows[name]["types"]))
        for name in TABLES
        if name in rows
    }


async def compared(source: Any, target: Any) -> dict[str, Described]:
    """The tables whose rows are copied. Raises unless both databases have the same."""
    here, there = await described(source), await described(target)
    for name in TABLES:
        mine, other = here.get(name), there.get(name)
        if mine is None or other is None or (mine.columns, mine.types) != (other.columns, other.types):
            raise NotRelocatableError(
                f"The table {name} is not the same in both databases. Run `latchkey migrate` of this version on both, "
                "and `latchkey migrate --after`."
            )
    return {name: one for name, one in here.items() if name not in ITS_OWN}


class Part(NamedTuple):
    number: int
    opened_at: int
    dropped_at: int | None


async def parts_of(connection: Any) -> list[Part]:
    return [
        Part(*row)
        for row in await connection.fetch("select partition, opened_at, dropped_at from partitions order by 1")
    ]


async def follow_parts(target: Any, wanted: Iterable[Part]) -> None:
    """Can be repeated."""
    there = {one.number: one for one in await parts_of(target)}
    for part in sorted(wanted, key=lambda one: (one.number < 0, one.number)):
        if part.number not in there:
            await target.execute("select open_partition($1, $2)", part.number, part.opened_at)
            there = {one.number: one for one in await parts_of(target)}
        if part.dropped_at is not None and there[part.number].dropped_at is None:
            await target.execute("select drop_partition($1, $2)", part.number, part.dropped_at)
