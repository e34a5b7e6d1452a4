"""The statements that run for every batch of events: each is compiled once, and handles all rows of a batch.

They are sent as text, with values as the driver takes them. Given as SQLAlchemy statements they are converted value by
value, which costs more than the database's own work. JSON is therefore given as text, and SQLite
answers with it, and with 0 and 1 instead of false and true.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import astuple
from sqlalchemy import JSON, BigInteger, Boolean, Table
from sqlalchemy.ext.asyncio import AsyncConnection

from latchkey.consumer.storage.consumer_database import ConsumerDatabase

Row: TypeAlias = dict[str, Any] | Struct


class SelectByIds:
    def __init__(self, database: ConsumerDatabase, statement: Any) -> None:
        self._database = database
        self._sql = str(statement.compile(dialect=database.engine.dialect))

    async def __call__(self, connection: AsyncConnection, ids: Collection[str]) -> Sequence[Sequence[Any]]:
        return await self._database.fetch(connection, self._sql, (self._database.listed(ids),))


class SelectTogether:
    """Several such SELECTs in one statement: one round trip. The first has the most columns; of the others, each column
    has the type of the first's column in the same place."""

    def __init__(self, database: ConsumerDatabase, *statements: Any) -> None:
        self._database = database
        self._widths = [len(statement.selected_columns) for statement in statements]
        parts = []
        for number, statement in enumerate(statements):
            sql = str(statement.compile(dialect=database.engine.dialect)).replace("$1", f"${number + 1}")
            padding = ", NULL" * (self._widths[0] - self._widths[number])
            # Every part of it was compiled from copy_tables.py.
            parts.append(f"SELECT {number}, part_{number}.*{padding} FROM ({sql}) AS part_{number}")  # noqa: S608
        self._sql = " UNION ALL ".join(parts)

    async def __call__(self, connection: AsyncConnection, *ids: Collection[str]) -> list[list[Sequence[Any]]]:
        found: list[list[Sequence[Any]]] = [[] for _ in self._widths]
        given = tuple(self._database.listed(chosen) for chosen in ids)
        for row in await self._database.fetch(connection, self._sql, given):
            number = row[0]
            found[number].append(row[1 : 1 + self._widths[number]])
        return found


class InsertRows:
    """An INSERT of any number of rows. With `overwrite`, a new row replaces the one with the same key.

    A row is a mapping or a struct with exactly these columns, in this order. PostgreSQL gets all rows as one JSON text:
    in arrays, the driver checks and converts each value by itself, which took a fifth of the consumer's time.
    """

    def __init__(self, table: Table, *, overwrite: bool = False) -> None:
        columns, key = table.columns.keys(), table.primary_key.columns.keys()
        self._into = f"INSERT INTO {table.name} ({', '.join(columns)})"
        self._conflict = ""
        if overwrite:
            changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
            self._conflict = f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"
        self._given = _record(table)
        self.one_row = f"{self._into} VALUES ({', '.join('?' * len(columns))}){self._conflict}"

    def from_json(self, parameter: int) -> str:
        """The statement that takes its rows from this parameter, a JSON array."""
        rows = f"json_to_recordset(${parameter}::json) AS {self._given}"
        # Every part of it is a name or a type from copy_tables.py.
        return f"{self._into} SELECT * FROM {rows}{self._conflict}"  # noqa: S608


async def insert_together(
    database: ConsumerDatabase, connection: AsyncConnection, given: Sequence[tuple[InsertRows, Sequence[Row]]]
) -> None:
    """Several inserts into different tables. PostgreSQL gets them as one statement: one round trip."""
    chosen = [(insert, rows) for insert, rows in given if rows]
    if database.is_sqlite:
        for insert, rows in chosen:
            await database.fetch(connection, insert.one_row, [tuple(_values(row)) for row in rows])
    elif chosen:
        values = tuple(msgspec.json.encode(rows).decode() for _, rows in chosen)
        await database.fetch(connection, _together(tuple(insert for insert, _ in chosen)), values)


@lru_cache(maxsize=64)
def _together(inserts: tuple[InsertRows, ...]) -> str:
    *others, last = (insert.from_json(number) for number, insert in enumerate(inserts, start=1))
    named = ", ".join(f"part_{number} AS ({statement})" for number, statement in enumerate(others))
    return f"WITH {named} {last}" if named else last


def _values(row: Row) -> Iterable[Any]:
    """As SQLite takes them: JSON as text."""
    for value in row.values() if isinstance(row, dict) else astuple(row):
        yield msgspec.json.encode(value).decode() if isinstance(value, dict) else value


def _record(table: Table) -> str:
    """The columns with their types. No lengths: a value that is too long must be refused, not cut."""
    columns = []
    for column in table.columns:
        type = "text"
        for known, name in ((BigInteger, "bigint"), (Boolean, "boolean"), (JSON, "jsonb")):
            if isinstance(column.type, known):
                type = name
        columns.append(f"{column.name} {type}")
    return f"given ({', '.join(columns)})"
