"""Reads what PostgreSQL's own output plugin (`pgoutput`, protocol version 1) says of committed transactions.

Every value is text, as COPY writes it. Pure: bytes in, transactions out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeAlias

from latchkey.storage.errors import NotRelocatableError


class Unchanged(Enum):
    """A long value that an update left as it was: PostgreSQL does not send it."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED
Value: TypeAlias = bytes | Unchanged | None
Row: TypeAlias = tuple[Value, ...]


class Table(NamedTuple):
    name: str
    columns: tuple[str, ...]


class Change(NamedTuple):
    table: Table
    kind: Literal["insert", "update", "delete"]
    # Of an update: only if its key changed. Of a delete: always. Columns that are not of the key may be None.
    old: Row | None
    new: Row | None


@dataclass(slots=True)
class Transaction:
    # The lower 32 bits.
    xid: int
    # Where the commit is in the WAL, and where it ends.
    lsn: int = 0
    end: int = 0
    changes: list[Change] = field(default_factory=list)


def transactions(messages: Iterable[bytes]) -> list[Transaction]:
    """Whole transactions, in the order of their commits."""
    done: list[Transaction] = []
    tables: dict[int, Table] = {}
    current: Transaction | None = None
    for message in messages:
        kind = message[:1]
        if kind == b"B":
            current = Transaction(struct.unpack_from(">QqI", message, 1)[2])
        elif kind == b"R":
            number, table = _table(message)
            tables[number] = table
        elif kind == b"C":
            assert current is not None
            current.lsn, current.end = struct.unpack_from(">QQ", message, 2)
            done.append(current)
            current = None
        elif kind in (b"I", b"U", b"D"):
            assert current is not None
            current.changes.append(_change(message, tables[struct.unpack_from(">I", message, 1)[0]]))
        elif kind == b"T":
            raise NotRelocatableError("A table was emptied with TRUNCATE meanwhile. Begin again.")
    return done


def _table(message: bytes) -> tuple[int, Table]:
    number: int = struct.unpack_from(">I", message, 1)[0]
    _, at = _text(message, 5)
    name, at = _text(message, at)
    # The table's replica identity.
    at += 1
    (amount,) = struct.unpack_from(">H", message, at)
    at += 2
    columns = []
    for _ in range(amount):
        column, at = _text(message, at + 1)
        columns.append(column)
        at += 8
    return number, Table(name, tuple(columns))


def _change(message: bytes, table: Table) -> Change:
    at = 5
    old: Row | None = None
    if message[at : at + 1] in (b"K", b"O"):
        old, at = _row(message, at + 1)
    new = _row(message, at + 1)[0] if message[at : at + 1] == b"N" else None
    kind: Literal["insert", "update", "delete"] = "insert"
    if message[:1] == b"U":
        kind = "update"
    elif message[:1] == b"D":
        kind = "delete"
    return Change(table, kind, old, new)


def _row(message: bytes, at: int) -> tuple[Row, int]:
    (amount,) = struct.unpack_from(">H", message, at)
    at += 2
    values: list[Value] = []
    for _ in range(amount):
        kind = message[at : at + 1]
        at += 1
        if kind == b"n":
            values.append(None)
        elif kind == b"u":
            values.append(UNCHANGED)
        else:
            (length,) = struct.unpack_from(">I", message, at)
            at += 4
            values.append(message[at : at + length])
            at += length
    return tuple(values), at


def _text(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(0, at)
    return message[at:end].decode(), end + 1
