"""The statements that run for every batch of events: each is compiled once, and handles all rows of a batch.

They are sent as text, with values as the driver takes them. Given as SQLAlchemy statements they are converted value by
value, which costs more than the database's own work (decision 0088). JSON is therefore given as text, and SQLite
answers with it, and with 0 and 1 instead of false and true.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Table
from sqlalchemy.ext.asyncio import AsyncConnection

from latchkey.consumer.storage.database import Database

# 26 columns in 32 rows are fewer than the 999 values that old versions of SQLite accept in a statement.
_MOST_ROWS = 32


class Find:
    """A SELECT of the rows that have one of the given ids."""

    def __init__(self, database: Database, statement: Any) -> None:
        self._database = database
        self._sql = str(statement.compile(dialect=database.engine.dialect))

    async def __call__(self, connection: AsyncConnection, ids: Collection[str]) -> Sequence[Sequence[Any]]:
        return await self._database.fetch(connection, self._sql, (self._database.listed(ids),))


class FindAll:
    """Several such SELECTs in one statement: one round trip. The first has the most columns; of the others, each column
    has the type of the first's column in the same place."""

    def __init__(self, database: Database, *statements: Any) -> None:
        self._database = database
        self._widths = [len(one.selected_columns) for one in statements]
        parts = []
        for number, one in enumerate(statements):
            sql = str(one.compile(dialect=database.engine.dialect)).replace("$1", f"${number + 1}")
            padding = ", NULL" * (self._widths[0] - self._widths[number])
            # Every part of it was compiled from tables.py.
            parts.append(f"SELECT {number}, part_{number}.*{padding} FROM ({sql}) AS part_{number}")  # noqa: S608
        self._sql = " UNION ALL ".join(parts)

    async def __call__(self, connection: AsyncConnection, *ids: Collection[str]) -> list[list[Sequence[Any]]]:
        found: list[list[Sequence[Any]]] = [[] for _ in self._widths]
        given = tuple(self._database.listed(one) for one in ids)
        for row in await self._database.fetch(connection, self._sql, given):
            number = row[0]
            found[number].append(row[1 : 1 + self._widths[number]])
        return found


class Insert:
    """An INSERT of any number of rows, their values in the order of `columns`. With a `key`, rows that exist are
    overwritten."""

    def __init__(
        self, database: Database, table: Table, columns: Sequence[str], *, key: tuple[str, ...] | None = None
    ) -> None:
        self._database = database
        self._into = f"INSERT INTO {table.name} ({', '.join(columns)})"
        self._conflict = ""
        if key is not None:
            changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
            self._conflict = f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"
        self._row = f"({', '.join('?' * len(columns))})"
        self._arrays = f"{self._into} {_unnested(table, columns)}{self._conflict}"

    async def __call__(self, connection: AsyncConnection, rows: Sequence[Sequence[Any]]) -> None:
        if not self._database.is_sqlite:
            if rows:
                await self._database.fetch(connection, self._arrays, tuple(zip(*rows, strict=True)))
            return
        begun = 0
        for size in _sizes(len(rows)):
            values = tuple(chain.from_iterable(rows[begun : begun + size]))
            await self._database.fetch(connection, self._values(size), values)
            begun += size

    def _values(self, rows: int) -> str:
        return f"{self._into} VALUES {', '.join([self._row] * rows)}{self._conflict}"


def _sizes(rows: int) -> list[int]:
    """The number of rows as a sum of powers of two: six texts for every table, each prepared once by SQLite."""
    full, rest = divmod(rows, _MOST_ROWS)
    return [_MOST_ROWS] * full + [size for size in (16, 8, 4, 2, 1) if rest & size]


def _unnested(table: Table, columns: Sequence[str]) -> str:
    """One array for each column. No lengths: a cast to a length would cut a value that is too long."""
    arrays, chosen = [], []
    for number, name in enumerate(columns, start=1):
        type = table.c[name].type
        given = "bigint" if isinstance(type, BigInteger) else "boolean" if isinstance(type, Boolean) else "text"
        arrays.append(f"${number}::{given}[]")
        chosen.append(f"{name}::jsonb" if isinstance(type, JSON) else name)
    # Every part of it is a name or a type from tables.py.
    return f"SELECT {', '.join(chosen)} FROM unnest({', '.join(arrays)}) AS given ({', '.join(columns)})"  # noqa: S608
