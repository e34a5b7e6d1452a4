"""Reads files into the database, row by row: nothing but the current chunk is in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from latchkey.domain.importing.row import CustomerRow, RowError, TransactionRow
from latchkey.storage.database import Connection
from latchkey.storage.importing import runs, staging
from latchkey.storage.importing.runs import Skip
from latchkey.storage.importing.staging import StagedId, StagedRow
from latchkey.usecases.importing.files import Source, opened
from latchkey.usecases.importing.formats import Cells, Reader, Row, group_of
from latchkey.usecases.importing.packing import pack

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
    reader: Reader,
    sources: Sequence[Source],
    progress: Callable[[int], None],
    *,
    note_skips: bool,
) -> Counter[str]:
    """Counts what was read. In a transaction."""
    counts: Counter[str] = Counter()
    chunk, done, number = _Chunk(), 0, 0

    async def flush() -> None:
        nonlocal chunk
        await staging.add(connection, project_id, run_id, chunk.rows, chunk.ids)
        if note_skips:
            await runs.add_skips(connection, project_id, run_id, chunk.skips)
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


def _add(chunk: _Chunk, reader: Reader, file: int, line: int, number: int, row: Row) -> None:
    group = group_of(reader.format, row)
    packed = pack(file, line, row)
    if isinstance(row, CustomerRow):
        chunk.rows.append(StagedRow(group, number, None, row.as_of, packed))
        chunk.ids += [StagedId(id, group, row.as_of) for id in row.ids if id != group]
    else:
        chunk.rows.append(StagedRow(group, number, (row.store, row.chain), row.updated_at, packed))
