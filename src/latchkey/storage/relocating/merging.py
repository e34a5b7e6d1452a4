"""Puts several transactions together: what is left of each row in the end. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from latchkey.storage.errors import NotRelocatableError
from latchkey.storage.relocating.decoding import UNCHANGED, Change, Row, Transaction

Key: TypeAlias = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """A row as it is in the end. Values that are unchanged are those of the row that has the key `found_at` now."""

    row: Row
    found_at: Key | None


@dataclass(slots=True)
class TableChanges:
    columns: tuple[str, ...]
    key: tuple[int, ...]
    # Keys that may be in the target now, and are to be removed there.
    removed: set[Key] = field(default_factory=set)
    # What is to be there afterwards. None: nothing.
    rows: dict[Key, Left | None] = field(default_factory=dict)

    def add(self, change: Change) -> None:
        if change.kind == "delete":
            assert change.old is not None
            self._gone(self.key_of(change.old))
            return
        assert change.new is not None
        key = self.key_of(change.new)
        if change.kind == "insert":
            # What was there is gone already, or was never there.
            self.rows[key] = Left(change.new, None)
            return
        before = self.key_of(change.old) if change.old is not None else key
        known = self.rows.get(before)
        row, found_at = change.new, before
        if known is not None:
            row = tuple(old if new is UNCHANGED else new for old, new in zip(known.row, row, strict=True))
            found_at = known.found_at or before
        if before != key:
            self._gone(before)
        if known is None:
            self.removed.add(key)
        self.rows[key] = Left(row, found_at if UNCHANGED in row else None)

    def _gone(self, key: Key) -> None:
        # A row that came with these transactions is not in the target.
        if self.rows.get(key) is None or key in self.removed:
            self.removed.add(key)
        self.rows[key] = None

    def key_of(self, row: Row) -> Key:
        found = tuple(row[place] for place in self.key)
        if not all(isinstance(value, bytes) for value in found):
            raise NotRelocatableError("A change of a row came without the row's key. Begin again.")
        return found  # type: ignore[return-value]  # checked above


def merged(several: Iterable[Transaction], keys: Mapping[str, Sequence[str]]) -> dict[str, TableChanges]:
    """By table. `keys`: the columns by which a row is found."""
    found: dict[str, TableChanges] = {}
    for transaction in several:
        for change in transaction.changes:
            name, columns = change.table
            if name not in found:
                found[name] = TableChanges(columns, tuple(columns.index(one) for one in keys[name]))
            elif found[name].columns != columns:
                raise NotRelocatableError(f"The columns of {name} were changed meanwhile. Begin again.")
            found[name].add(change)
    return found


def copied(rows: Iterable[Row]) -> bytes:
    """Rows as COPY reads them."""
    return b"".join(b"\t".join(_copied(value) for value in row) + b"\n" for row in rows)


def _copied(value: object) -> bytes:
    if value is None:
        return b"\\N"
    assert isinstance(value, bytes)
    if b"\\" in value:
        value = value.replace(b"\\", b"\\\\")
    return value.replace(b"\n", b"\\n").replace(b"\r", b"\\r").replace(b"\t", b"\\t")
