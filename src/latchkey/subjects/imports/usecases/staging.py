"""Rows as bytes while they wait to be applied, with the place in the file that they came from."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints

import msgspec
from msgspec import msgpack

from latchkey.database.pool import Connection
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.subscription import Subscription
from latchkey.subjects.imports import storage
from latchkey.subjects.imports.rules.person import ImportedPerson, PurchaseKey, person, together
from latchkey.subjects.imports.rules.row import CustomerRow, RowError, TransactionRow
from latchkey.subjects.imports.rules.skip import Skip
from latchkey.subjects.imports.storage import StagedId, StagedRow
from latchkey.subjects.imports.usecases.file_formats import Cells, RecordReader, Row, group_of
from latchkey.subjects.imports.usecases.import_files import SourceFile, opened

T = TypeVar("T", TransactionRow, CustomerRow)
_TRANSACTION, _CUSTOMER = b"\0", b"\1"


class Placed(NamedTuple, Generic[T]):
    file: int
    line: int
    row: T


def _shaped(one: Field[Any], hint: Any) -> Any:
    """With its default: rows that a release before has staged lack the newest fields."""
    if one.default is not MISSING:
        return one.name, hint, one.default
    if one.default_factory is not MISSING:
        return one.name, hint, msgspec.field(default_factory=one.default_factory)
    return one.name, hint


class _Shape(Generic[T]):
    """One kind of row as an array: field names would be most of its size. What comes out is a struct with the fields
    and properties of the row: creating the dataclass takes five times as long."""

    def __init__(self, row: type[T]) -> None:
        names = tuple(one.name for one in fields(row))
        self._values = attrgetter(*names)
        hints = get_type_hints(row)
        shape = msgspec.defstruct(
            row.__name__,
            [_shaped(one, hints[one.name]) for one in fields(row)],
            namespace={name: one for name, one in vars(row).items() if isinstance(one, property)},
            array_like=True,
            frozen=True,
        )
        self._decode = msgpack.Decoder(tuple[int, int, shape]).decode  # type: ignore[valid-type]

    def pack(self, file: int, line: int, row: T) -> bytes:
        return _encode((file, line, self._values(row)))

    def unpack(self, packed: bytes) -> Placed[T]:
        placed: Any = self._decode(packed)
        return Placed(*placed)


_encode = msgpack.Encoder().encode
_TRANSACTIONS, _CUSTOMERS = _Shape(TransactionRow), _Shape(CustomerRow)


def pack(file: int, line: int, row: TransactionRow | CustomerRow) -> bytes:
    if isinstance(row, TransactionRow):
        return _TRANSACTION + _TRANSACTIONS.pack(file, line, row)
    return _CUSTOMER + _CUSTOMERS.pack(file, line, row)


def is_transaction(packed: bytes) -> bool:
    return packed[:1] == _TRANSACTION


def unpack_transaction(packed: bytes) -> Placed[TransactionRow]:
    return _TRANSACTIONS.unpack(packed[1:])


def unpack_customer(packed: bytes) -> Placed[CustomerRow]:
    return _CUSTOMERS.unpack(packed[1:])


# The rows of some customers, put together: who they are, what they bought, and where each row stands in the files.


@dataclass(frozen=True, slots=True)
class RowProblem:
    """A row that was not applied, by the number of its file."""

    file: int
    line: int
    reason: str


@dataclass(slots=True)
class StagedBatch:
    """What one batch holds, before it is written."""

    people: list[ImportedPerson]
    # Where the rows of each purchase stand in the files, and those of each customer.
    places: dict[PurchaseKey, list[tuple[int, int]]]
    homes: dict[str, tuple[int, int]]

    def problems(self, bought: Iterable[Subscription | Purchase], reason: str) -> list[RowProblem]:
        """One for each row of these purchases."""
        return [RowProblem(*place, reason) for one in bought for place in self.places.get((one.store, one.id), ())]


def read_batch(groups: Mapping[str, Iterable[bytes]]) -> StagedBatch:
    places: dict[PurchaseKey, list[tuple[int, int]]] = {}
    homes: dict[str, tuple[int, int]] = {}
    people: list[ImportedPerson] = []
    for key, packed in groups.items():
        transactions: list[TransactionRow] = []
        told: list[CustomerRow] = []
        for one in packed:
            if is_transaction(one):
                file, line, row = unpack_transaction(one)
                transactions.append(row)
                places.setdefault((row.store, row.chain), []).append((file, line))
            else:
                file, line, about = unpack_customer(one)
                told.append(about)
            homes.setdefault(key, (file, line))
        made = person(key, transactions, told)
        homes[made.app_user_id] = homes[key]
        people.append(made)
    return StagedBatch(_unrepeated(people), places, homes)


def _unrepeated(people: Iterable[ImportedPerson]) -> list[ImportedPerson]:
    """People who share an id or a purchase are one."""
    found: list[ImportedPerson | None] = []
    holders: dict[object, int] = {}
    for one in people:
        named: set[object] = {*one.ids, *one.keys}
        index = len(found)
        found.append(one)
        while shared := {holders[name] for name in named if name in holders} - {index}:
            for other in shared:
                mine, theirs = found[index], found[other]
                assert mine is not None
                if theirs is not None:
                    found[index] = mine = together(theirs, mine)
                    named |= {*mine.ids, *mine.keys}
                found[other] = None
                holders = {name: index if holder == other else holder for name, holder in holders.items()}
        holders.update(dict.fromkeys(named, index))
    return [one for one in found if one is not None]


# Reads files into the database, row by row: nothing but the current chunk is in memory.


_CHUNK = 5_000


@dataclass(slots=True)
class _Chunk:
    rows: list[StagedRow] = field(default_factory=list)
    ids: list[StagedId] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows) + len(self.skips)


async def stage(
    connection: Connection,
    project_id: str,
    run_id: str,
    reader: RecordReader,
    sources: Sequence[SourceFile],
    progress: Callable[[int], None],
    *,
    note_skips: bool,
) -> Counter[str]:
    """Counts what was read. In a transaction."""
    counts: Counter[str] = Counter()
    chunk, done, number = _Chunk(), 0, 0

    async def flush() -> None:
        nonlocal chunk
        await storage.add(connection, project_id, run_id, chunk.rows, chunk.ids)
        if note_skips:
            await storage.add_skips(connection, project_id, run_id, chunk.skips)
        chunk = _Chunk()

    for index, one in enumerate(sources):
        with opened(one.path) as content:
            makers: dict[frozenset[str], Callable[[Cells], list[Row]]] = {}
            of_file = None if content.header is None else reader.of_header(str(one.path), content.header)
            for record in content.records:
                counts["rows read"] += 1
                try:
                    if record.problem is not None:
                        raise record.problem
                    make = of_file
                    if make is None:
                        names = frozenset(record.cells)
                        make = makers.get(names)
                        if make is None:
                            make = makers[names] = reader.of_header(f"{one.path}, line {record.line}", names)
                    for row in make(record.cells):
                        number += 1
                        _add(chunk, reader, index, record.line, number, row)
                        counts["transactions" if isinstance(row, TransactionRow) else "customer rows"] += 1
                        if isinstance(row, CustomerRow) and row.left_out:
                            counts["attributes and balances left out"] += len(row.left_out)
                            chunk.skips += [Skip(one.name, record.line, why) for why in dict.fromkeys(row.left_out)]
                except RowError as error:
                    counts["skipped"] += 1
                    chunk.skips.append(Skip(one.name, record.line, error.reason))
                if len(chunk) >= _CHUNK:
                    await flush()
                    progress(done + content.position())
        done += one.size
        progress(done)
    await flush()
    return counts


def _add(chunk: _Chunk, reader: RecordReader, file: int, line: int, number: int, row: Row) -> None:
    group = group_of(reader.format, row)
    packed = pack(file, line, row)
    if isinstance(row, CustomerRow):
        chunk.rows.append(StagedRow(group, number, None, row.as_of, packed))
        chunk.ids += [StagedId(id, group, row.as_of) for id in row.ids if id != group]
    else:
        chunk.rows.append(StagedRow(group, number, (row.store, row.chain), row.updated_at, packed))
