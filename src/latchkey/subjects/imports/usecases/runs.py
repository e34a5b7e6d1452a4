"""An import from beginning to end: read the files into the database, then write customer by customer.

Each step leaves the import in a state from which the same command goes on: the files are staged in one transaction, and
each batch of customers is committed together with the progress. Killing the process at any point loses nothing and
repeats nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import msgspec
from msgspec import Struct, json
from msgspec.structs import replace

from latchkey.database import transient_errors
from latchkey.database.errors import CollisionError, OutageError
from latchkey.database.pool import Connection, Database, connect
from latchkey.database.transient_errors import translated_errors
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Conflict, Invalid, NotFound
from latchkey.engine.storage.catalog.app_rows import APPS
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.catalog.currency_rows import CURRENCIES
from latchkey.engine.storage.read_rows import load_projects
from latchkey.subjects.imports import storage
from latchkey.subjects.imports.rules.row import Skip
from latchkey.subjects.imports.storage import ImportRun
from latchkey.subjects.imports.usecases.apply import Applier, Questions
from latchkey.subjects.imports.usecases.import_files import SourceFile, source
from latchkey.subjects.imports.usecases.staging import Format, RecordReader, read_batch, stage

# Rows in one transaction. Enough to be worth its round trips, few enough that nobody waits long for a customer.
AT_ONCE = 4_000
# With their events, which cost more.
AT_ONCE_TOLD = 400
_TRIES = 8
_TURN_TRIES, _TURN_PAUSE = 5, 0.2
# Kept among the counts of an import, so that a resumed one knows them too: questions by app, and names to be told.
_ASKED = "asked "
_WITHOUT_RATE = "without rate "
_UNKNOWN_PRODUCT = "unknown product "
_STORE_WITHOUT_APP = "store without app "
_NOTES = (_ASKED, _WITHOUT_RATE, _UNKNOWN_PRODUCT, _STORE_WITHOUT_APP)

Progress = Callable[[str, int, int], None]
SkipReport = Callable[[Skip], None] | None
READING, WRITING = "Reading", "Writing"


class ImportOrder(Struct, frozen=True, kw_only=True):
    project_id: str
    format: Format
    files: tuple[Path, ...]
    # By store: the app in which its purchases were made.
    apps: Mapping[str, str] = msgspec.field(default_factory=dict)
    told: bool = False
    dry: bool = False
    # Import files again that were imported already.
    again: bool = False


class ImportResult(Struct, frozen=True, kw_only=True):
    run_id: str
    # The files had been imported before, at this moment: nothing was done.
    known_since: Ms | None = None
    # Rows that an earlier attempt had written.
    resumed_at: int | None = None
    counts: Mapping[str, int] = msgspec.field(default_factory=dict)
    # How many rows were skipped, by reason.
    skipped: Mapping[str, int] = msgspec.field(default_factory=dict)
    unknown_products: tuple[str, ...] = ()
    stores_without_app: tuple[str, ...] = ()
    currencies_without_rate: tuple[str, ...] = ()


async def run_import(
    database: Database,
    order: ImportOrder,
    now: Callable[[], Ms],
    progress: Progress = lambda _stage, _done, _total: None,
    skipped: SkipReport = None,
) -> ImportResult:
    """`skipped` is called at the end for every row that was not imported."""
    sources = _sources(order.files)
    turn = await connect(database.url, application_name="latchkey import")
    try:
        if not await _turn_comes(turn, order.project_id):
            raise Conflict("Another import into this project is running. Wait until it is done.")
        with translated_errors():
            return await _Import(database, order, sources, now, progress).run(skipped)
    except OutageError as error:
        raise OutageError(
            f"The import stopped: {error}. Nothing is lost: run the same command again, and it continues."
        ) from error
    finally:
        await turn.close()


async def _turn_comes(turn: Connection, project_id: str) -> bool:
    """The database may need a moment to notice that an import was killed."""
    for _ in range(_TURN_TRIES):
        if await storage.take_turn(turn, project_id):
            return True
        await asyncio.sleep(_TURN_PAUSE)
    return False


def _sources(paths: tuple[Path, ...]) -> tuple[SourceFile, ...]:
    found = tuple(source(path) for path in paths)
    if len({file.digest for file in found}) < len(found):
        raise Invalid("Two of the files have the same content. Name each file once.")
    return found


def fingerprint(order: ImportOrder, sources: tuple[SourceFile, ...]) -> str:
    """The same files with the same options have the same, in any order."""
    what = (order.format, sorted(order.apps.items()), order.told, sorted(file.digest for file in sources))
    return sha256(json.encode(what)).hexdigest()


class _Import(Struct):
    database: Database
    order: ImportOrder
    sources: tuple[SourceFile, ...]
    now: Callable[[], Ms]
    progress: Progress
    # In a dry run: the connection whose transaction is rolled back at the end.
    _rehearsal: Connection | None = None

    async def run(self, skipped: SkipReport) -> ImportResult:
        if not self.order.dry:
            return await self._run(skipped)
        async with self.database.acquire() as connection, storage.undone(connection):
            self._rehearsal = connection
            return await self._run(skipped)

    async def _run(self, skipped: SkipReport) -> ImportResult:
        order, digest = self.order, fingerprint(self.order, self.sources)
        async with self._transaction() as connection:
            reader = await self._prepare(connection)
            run = None if order.again or order.dry else await storage.find(connection, order.project_id, digest)
            if run is not None and run.status == "done":
                return await self._result(run, skipped, known_since=run.finished_at)
            waiting = await storage.count(connection, order.project_id, run.id) if run is not None else 0
        resumed_at = _applied(run) if run is not None and run.status == "applying" else None
        if run is None or run.status == "staging" or waiting != run.staged:
            run = await self._stage(run, digest, reader)
        applier = Applier(
            project_id=order.project_id,
            run_id=run.id,
            catalog=reader.catalog,
            currencies=reader.currencies,
            questions=Questions(run.started_at, {name: run.counts[_ASKED + name] for name in _noted(run, _ASKED)}),
            told=order.told,
            dry=order.dry,
        )
        run = await self._apply(run, applier)
        async with self._transaction() as connection:
            await storage.finish(connection, order.project_id, run.id, run.counts, self.now())
            await storage.clear(connection, order.project_id)
        return await self._result(run, skipped, resumed_at=resumed_at)

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Connection]:
        if self._rehearsal is not None:
            yield self._rehearsal
        else:
            async with transient_errors.hot_transaction(self.database) as connection:
                yield connection

    async def _prepare(self, connection: Connection) -> RecordReader:
        order = self.order
        found = await load_projects(connection, Catalogs(), {order.project_id})
        if order.project_id not in found:
            raise NotFound(f"There is no project {order.project_id}.")
        apps: dict[str, list[str]] = {}
        for app in await APPS.page(connection, order.project_id):
            apps.setdefault(app.store, []).append(app.id)
        for store, app_id in order.apps.items():
            if app_id not in apps.get(store, ()):
                raise Invalid(f"This project has no app {app_id} in {store}. `latchkey app list` shows its apps.")
        return RecordReader(
            format=order.format,
            catalog=found[order.project_id].catalog,
            apps=apps,
            chosen=order.apps,
            now=self.now(),
            currencies=frozenset(one.code for one in await CURRENCIES.page(connection, order.project_id)),
        )

    async def _stage(self, known: ImportRun | None, digest: str, reader: RecordReader) -> ImportRun:
        """Reads the files from the beginning. Skips of an earlier reading come again; those of batches stay. The import
        begins in the same transaction: one that is refused or killed while it reads leaves no trace."""
        project_id = self.order.project_id
        async with self._transaction() as connection:
            run = known or ImportRun(f"imp_{uuid4().hex[:16]}", "staging", 0, "", {}, self.now(), None)
            if known is None:
                await storage.begin(connection, project_id, run.id, digest, run.started_at)
            await storage.clear(connection, project_id)
            await storage.restart(connection, project_id, run.id, not run.cursor)
            where = connection, project_id, run.id
            progress = partial(self.progress, READING)
            counts = await stage(*where, reader, self.sources, progress, note_skips=not run.cursor)
            counts.update(_UNKNOWN_PRODUCT + product for product in reader.unknown_products)
            counts.update(_STORE_WITHOUT_APP + store for store in reader.stores_without_app)
            merged = run.counts if run.cursor else {**run.counts, **counts}
            staged = await storage.complete(connection, project_id, run.id, merged)
        return replace(run, status="applying", staged=staged, counts=dict(merged))

    async def _apply(self, run: ImportRun, applier: Applier) -> ImportRun:
        following: ImportRun | None = run
        while following is not None:
            run = following
            self.progress(WRITING, _applied(run), run.staged)
            following = await self._batch(run, applier, AT_ONCE_TOLD if self.order.told else AT_ONCE)
        return run

    async def _batch(self, run: ImportRun, applier: Applier, limit: int) -> ImportRun | None:
        for tries_left in reversed(range(_TRIES)):
            asked = dict(applier.questions.asked)
            try:
                async with self._transaction() as connection:
                    return await self._write_batch(connection, run, applier, limit)
            except CollisionError:
                # Somebody has just created one of these customers, or changed them: look again.
                applier.questions.asked = asked
                if not tries_left:
                    raise
        raise AssertionError("unreachable")

    async def _write_batch(
        self, connection: Connection, run: ImportRun, applier: Applier, limit: int
    ) -> ImportRun | None:
        project_id, now = self.order.project_id, self.now()
        groups = await storage.next_customers(connection, project_id, run.id, run.cursor, limit)
        if not groups:
            return None
        batch = read_batch(groups, [source.name for source in self.sources])
        if self.order.dry:
            async with storage.undone(connection):
                outcome = await applier.apply(connection, batch, now)
        else:
            outcome = await applier.apply(connection, batch, now)
        await storage.add_skips(connection, project_id, run.id, outcome.skips)
        counts = Counter(run.counts) + outcome.counts
        counts["applied"] += sum(len(rows) for rows in groups.values())
        for app, asked in applier.questions.asked.items():
            counts[_ASKED + app] = asked
        counts.update({_WITHOUT_RATE + one: 1 for one in outcome.without_rate if not counts[_WITHOUT_RATE + one]})
        cursor = max(groups)
        if not await storage.advance(connection, project_id, run, cursor, counts):
            raise Conflict("Another process continues this import.")
        return replace(run, cursor=cursor, counts=dict(counts))

    async def _result(
        self, run: ImportRun, skipped: SkipReport, *, known_since: Ms | None = None, resumed_at: int | None = None
    ) -> ImportResult:
        async with self._transaction() as connection:
            if skipped is not None:
                async for skip in storage.skips(connection, self.order.project_id, run.id):
                    skipped(skip)
            reasons = await storage.reasons(connection, self.order.project_id, run.id)
        return ImportResult(
            run_id=run.id,
            known_since=known_since,
            resumed_at=resumed_at,
            counts={name: count for name, count in run.counts.items() if not name.startswith(_NOTES)},
            currencies_without_rate=_noted(run, _WITHOUT_RATE),
            skipped=reasons,
            unknown_products=_noted(run, _UNKNOWN_PRODUCT),
            stores_without_app=_noted(run, _STORE_WITHOUT_APP),
        )


def _applied(run: ImportRun) -> int:
    return run.counts.get("applied", 0)


def _noted(run: ImportRun, note: str) -> tuple[str, ...]:
    return tuple(sorted(name.removeprefix(note) for name in run.counts if name.startswith(note)))


# For an erased customer, who may be among the rows of an import that was stopped. It reads its files again.
forget = storage.clear_stopped
# For history that is not read from files.
find_run, begin_run, finish_run = storage.find, storage.begin, storage.finish
