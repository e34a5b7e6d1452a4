"""Taking changes over from one database into another: what PostgreSQL notes is read, and merged, without a loss."""

from __future__ import annotations

import random
import struct

import pytest

from latchkey.storage.errors import NotRelocatableError
from latchkey.storage.relocating.decoding import UNCHANGED, Change, Table, Transaction, transactions
from latchkey.storage.relocating.merging import Left, TableChanges, copied, merged
from latchkey.storage.relocating.progress import FOLLOWING, Progress, visible

TABLE = Table("things", ("project_id", "id", "long"))
KEYS = {"things": ("project_id", "id")}


def text(value: bytes | None) -> bytes:
    return b"n" if value is None else b"t" + struct.pack(">I", len(value)) + value


def row(*values: bytes | None) -> bytes:
    return struct.pack(">H", len(values)) + b"".join(text(one) for one in values)


def relation(number: int, name: bytes, *columns: bytes) -> bytes:
    described = b"".join(b"\x01" + one + b"\0" + struct.pack(">Ii", 25, -1) for one in columns)
    return b"R" + struct.pack(">I", number) + b"public\0" + name + b"\0d" + struct.pack(">H", len(columns)) + described


def test_a_transaction_is_read_from_what_the_server_sends() -> None:
    begun = b"B" + struct.pack(">QqI", 900, 1, 7)
    number = struct.pack(">I", 5)
    unchanged = b"U" + number + b"N" + struct.pack(">H", 3) + text(b"p") + text(b"2") + b"u"
    messages = [
        begun,
        relation(5, b"things", *(one.encode() for one in TABLE.columns)),
        b"I" + number + b"N" + row(b"p", b"1", None),
        b"U" + number + b"K" + row(b"p", b"1", None) + b"N" + row(b"p", b"2", b"x"),
        unchanged,
        b"D" + number + b"K" + row(b"p", b"2", None),
        b"C\0" + struct.pack(">QQq", 900, 950, 1),
    ]
    (found,) = transactions(messages)
    assert (found.xid, found.lsn, found.end) == (7, 900, 950)
    assert found.changes == [
        Change(TABLE, "insert", None, (b"p", b"1", None)),
        Change(TABLE, "update", (b"p", b"1", None), (b"p", b"2", b"x")),
        Change(TABLE, "update", None, (b"p", b"2", UNCHANGED)),
        Change(TABLE, "delete", (b"p", b"2", None), None),
    ]


def test_a_table_that_is_emptied_meanwhile_cannot_be_followed() -> None:
    with pytest.raises(NotRelocatableError, match="TRUNCATE"):
        transactions([b"T" + struct.pack(">IBI", 1, 0, 5)])


def test_columns_that_change_meanwhile_cannot_be_followed() -> None:
    other = Table("things", ("project_id", "id"))
    changes = [Change(TABLE, "insert", None, (b"p", b"1", b"x")), Change(other, "insert", None, (b"p", b"2"))]
    with pytest.raises(NotRelocatableError, match="columns of things"):
        merged([Transaction(1, changes=changes)], KEYS)


@pytest.mark.parametrize("seed", range(30))
def test_merged_transactions_leave_what_the_changes_leave_one_by_one(seed: int) -> None:
    chances = random.Random(seed)
    there: dict[tuple[bytes, ...], bytes] = {(b"p", str(n).encode()): str(n).encode() * 3 for n in range(4)}
    now = dict(there)
    changes: list[Change] = []
    for number in range(chances.randrange(1, 25)):
        key = (b"p", str(chances.randrange(6)).encode())
        other = (b"p", str(chances.randrange(6)).encode())
        long = str(number).encode()
        if key not in now:
            now[key] = long
            changes.append(Change(TABLE, "insert", None, (*key, long)))
        elif chances.random() < 0.3:
            del now[key]
            changes.append(Change(TABLE, "delete", (*key, None), None))
        elif chances.random() < 0.4 and other not in now:
            # The key changes. The long value may stay and is not sent then.
            keep = chances.random() < 0.5
            now[other] = now.pop(key) if keep else long
            if not keep:
                now.pop(key, None)
            changes.append(Change(TABLE, "update", (*key, None), (*other, UNCHANGED if keep else long)))
        else:
            keep = chances.random() < 0.5
            now[key] = now[key] if keep else long
            changes.append(Change(TABLE, "update", None, (*key, UNCHANGED if keep else long)))
    found = merged([Transaction(1, changes=changes)], KEYS)
    assert applied(there, found["things"]) == now


def applied(there: dict[tuple[bytes, ...], bytes], changes: TableChanges) -> dict[tuple[bytes, ...], bytes]:
    """As `applying.py` does: unchanged values are read first, then rows are removed, then the others added."""
    rows = {}
    for key, left in changes.rows.items():
        if isinstance(left, Left):
            value = left.row[2]
            if value is UNCHANGED:
                assert left.found_at is not None
                value = there[left.found_at]
            assert isinstance(value, bytes)
            rows[key] = value
    kept = {key: value for key, value in there.items() if key not in changes.removed}
    assert not kept.keys() & rows.keys(), "a row would be there twice"
    return {**kept, **rows}


def test_rows_are_written_as_copy_reads_them() -> None:
    assert copied([(b"a\tb", None, b"c\\d\ne\r")]) == b"a\\tb\t\\N\tc\\\\d\\ne\\r\n"


@pytest.mark.parametrize(
    ("xid", "seen"),
    [(99, True), (100, False), (101, True), (103, False), (104, True), (110, False), (2**32 - 5, True)],
)
def test_a_snapshot_tells_which_transactions_it_has_seen(xid: int, seen: bool) -> None:
    assert visible("100:110:100,103", xid) is seen


def test_transaction_ids_begin_again_after_four_billion() -> None:
    snapshot = f"{2**32 + 10}:{2**32 + 20}:{2**32 + 15}"
    assert visible(snapshot, 9)
    assert visible(snapshot, 2**32 - 1)
    assert not visible(snapshot, 15)
    assert not visible(snapshot, 25)


def test_a_transaction_is_wanted_once() -> None:
    progress = Progress(FOLLOWING, "1/2", "100:110:", 5_000, frozenset({120}))
    assert not progress.wants(109, 6_000), "the copy has it"
    assert not progress.wants(115, 5_000), "it was applied"
    assert progress.wants(120, 4_000), "it was put off"
    assert progress.wants(130, 5_001)
