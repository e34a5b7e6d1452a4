"""Reads files into the database, row by row: nothing but the current chunk is in memory. Reads batches of customers
back."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import msgpack

from latchkey.database.pool import Connection
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.subscription import Subscription
from latchkey.subjects.imports import storage
from latchkey.subjects.imports.rules.person import ImportedPerson, PurchaseKey, person, together
from latchkey.subjects.imports.rules.row import CustomerRow, RowError, Skip, TransactionRow
from latchkey.subjects.imports.storage import StagedId, StagedRow
from latchkey.subjects.imports.usecases.file_formats import Cells, RecordReader, Row, group_of
from latchkey.subjects.imports.usecases.import_files import SourceFile, opened

_encode = msgpack.Encoder().encode
# The number of the file, the line, and the row.
_decode = msgpack.Decoder(tuple[int, int, TransactionRow | CustomerRow]).decode


@dataclass(slots=True)
class StagedBatch:
    """What one batch holds, before it is written."""

    people: list[ImportedPerson]
    # Where the rows of each purchase stand, by file and line, and those of each customer.
    places: dict[PurchaseKey, list[tuple[str, int]]]
    homes: dict[str, tuple[str, int]]

    def skips(self, bought: Iterable[Subscription | Purchase], reason: str) -> list[Skip]:
        """One for each row of these purchases."""
        return [Skip(*place, reason) for one in bought for place in self.places.get((one.store, one.id), ())]


def read_batch(groups: Mapping[str, Iterable[bytes]], files: Sequence[str]) -> StagedBatch:
    """The rows of some customers, put together: who they are, what they bought, and where each row stands."""
    places: dict[PurchaseKey, list[tuple[str, int]]] = {}
    homes: dict[str, tuple[str, int]] = {}
    people: list[ImportedPerson] = []
    for key, packed in groups.items():
        transactions: list[TransactionRow] = []
        told: list[CustomerRow] = []
        for one in packed:
            file, line, row = _decode(one)
            place = files[file], line
            if isinstance(row, TransactionRow):
                transactions.append(row)
                places.setdefault((row.store, row.chain), []).append(place)
            else:
                told.append(row)
            homes.setdefault(key, place)
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
    packed = _encode((file, line, row))
    if isinstance(row, CustomerRow):
        chunk.rows.append(StagedRow(group, number, None, None, row.as_of, packed))
        chunk.ids += [StagedId(id, group, row.as_of) for id in row.ids if id != group]
    else:
        chunk.rows.append(StagedRow(group, number, row.store, row.chain, row.updated_at, packed))
