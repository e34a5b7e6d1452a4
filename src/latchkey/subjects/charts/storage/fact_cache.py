"""The facts of projects in this process: opened when a chart is asked for, and brought up to date for each answer.

They are a cache. The file of a project stands in a local folder, is built from PostgreSQL when too many customers have
changed since the last one, and can be deleted at any time. Many processes read one file; a lock lets one of them build
it.
"""

import asyncio
import fcntl
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, gettempdir, mkdtemp
from time import monotonic
from typing import IO

import structlog
from msgspec import Struct

from latchkey.database.pool import Connection, Database
from latchkey.database.rows import executes, fetch_all, finds_value
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import NotFound, NotReady
from latchkey.engine.storage.catalog import app_rows
from latchkey.subjects.charts.storage import project_facts
from latchkey.subjects.charts.storage.project_facts import RULES, ProjectFacts

# A project with fewer customers has no file. With more changed customers than the second, the next file is built.
FEW_CUSTOMERS = 10_000
MOST_CHANGED = 50_000
# How long a reader waits for the first file of a large project.
_PATIENCE_SECONDS = 20.0
_LOOK_SECONDS = 0.2
_MOST_OPEN = 30
# With more projects nobody knows which one will be looked at.
_MOST_WARMED = 3
_COPY_MS = 30 * 60_000

log = structlog.get_logger()


class Snapshot(Struct, frozen=True):
    """What a transaction sees. Whoever reads the rows in it, or later, knows everything before `oldest_xid`."""

    # The server, its timeline, the database and a table in it. Transaction ids of another one mean nothing.
    epoch: str
    # Every transaction before this one has ended.
    oldest_xid: int
    next_xid: int


async def snapshot(connection: Connection, project_id: str) -> Snapshot:
    [found] = await fetch_all(connection, Snapshot, query("chart_mark"), project_id)
    return found


async def changed_since(connection: Connection, project_id: str, known_xid: int, now: Snapshot) -> list[int]:
    """The keys of customers whose rows may differ from what was read when `known_xid` was the oldest transaction; some
    of them are gone."""
    # Ids of transactions that are yet to come are from another server, before a restore: only whoever knows nothing
    # asks for them.
    until = now.next_xid if known_xid else 2**63 - 1
    return [row["id"] for row in await connection.fetch(query("chart_changes"), project_id, known_xid, until)]


async def copy_rows(
    connection: Connection, project_id: str, periods: Path, people: Path, keys: Sequence[int] | None = None
) -> None:
    """Of these customers, or of all. CSV without a header, in the order of PERIODS and CUSTOMERS."""
    for sql, output in ((query("chart_periods_of"), periods), (query("chart_customers_of"), people)):
        await connection.copy_from_query(sql, project_id, keys, output=output, format="csv")


# The customer attributes that charts can be broken down by. None: there is no such project.
chosen_attributes = finds_value(list[str], query("chart_attributes_of"))
choose_attributes = executes(query("choose_chart_attributes"))
# The project, the customer's key, the enrollments and the attributes.
keep_erased = executes(query("keep_erased_chart_customer"))


def default_folder() -> Path:
    """Only this user may read it. If another user has made a folder of this name, a new one is used."""
    folder = Path(gettempdir(), f"latchkey-charts-{os.getuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    is_private = found.st_uid == os.getuid() and not found.st_mode & 0o077
    return folder if is_private else Path(mkdtemp(prefix="latchkey-charts-"))


class _Opened(Struct):
    facts: ProjectFacts
    # None: the project is small.
    file: Path | None
    # What the file depends on besides the rows.
    key: str
    # Everything that was committed before this transaction is in it.
    known_xid: int
    # When that transaction was asked for, on the clock of `monotonic`.
    read_at: float = 0.0


class Reading:
    """For the questions of one request: each is answered with the facts as of its beginning or later, which are read
    once for all of them."""

    def __init__(self, cache: "FactCache", since: float) -> None:
        self.database = cache.database
        self._cache, self._since = cache, since

    async def facts(self, project_id: str, now: Ms) -> ProjectFacts:
        return await self._cache.facts(project_id, now, self._since)


class FactCache:
    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self._folder = folder
        self._opened: OrderedDict[str, _Opened] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}
        self._building: dict[str, asyncio.Task[None]] = {}
        self._warming: asyncio.Task[None] | None = None

    async def facts(self, project_id: str, now: Ms, since: float | None = None) -> ProjectFacts:
        """With everything that was committed when this was called, or at the instant `since` of `monotonic`."""
        since = monotonic() if since is None else since
        async with self._locks.setdefault(project_id, asyncio.Lock()):
            opened = self._opened.get(project_id)
            if opened is not None and opened.read_at > since:
                return opened.facts
            found = await self._current(project_id, now)
            if isinstance(found, asyncio.Task):
                await asyncio.wait([found], timeout=_PATIENCE_SECONDS)
                found = await self._current(project_id, now)
        if isinstance(found, asyncio.Task):
            raise NotReady("The charts of this project are being built from its purchases. Try again in a minute.")
        return found

    def warm(self, now: Ms) -> asyncio.Task[None]:
        """Opens the facts of all projects in the background, once and if they are few. The first chart of a process
        takes 0.7 s longer: DuckDB is imported, and the facts of a small project are derived."""
        if self._warming is None:
            self._warming = asyncio.create_task(self._warmed(now))
        return self._warming

    async def end(self) -> None:
        tasks = [*self._building.values(), *filter(None, [self._warming])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _warmed(self, now: Ms) -> None:
        try:
            projects = await app_rows.all_of_them(self.database)
            for project in projects if len(projects) <= _MOST_WARMED else ():
                await self.facts(project.id, now)
        except Exception as error:
            log.warning("charts were not opened ahead", reason=str(error))

    async def _current(self, project_id: str, now: Ms) -> ProjectFacts | asyncio.Task[None]:
        """A task: so much has changed that a file is built first."""
        read_at = monotonic()
        with TemporaryDirectory(prefix="latchkey-charts-") as folder:
            periods, people = Path(folder, "periods.csv"), Path(folder, "customers.csv")
            async with self.database.transaction(isolation="repeatable_read", readonly=True) as connection:
                seen, key = await self._identity(connection, project_id)
                opened = self._opened.get(project_id)
                # This process has built a file since, or another one has.
                if opened is None or opened.key != key or self._newest(project_id, key) not in (None, opened.file):
                    opened = await asyncio.to_thread(self._open, project_id, key)
                keys = await changed_since(connection, project_id, opened.known_xid, seen)
                # With more changed customers at once, a new file is quicker.
                if len(keys) > (10 * MOST_CHANGED if opened.file else FEW_CUSTOMERS):
                    return self.build(project_id, now, opened.file)
                if keys:
                    await copy_rows(connection, project_id, periods, people, keys)
            if keys:
                await asyncio.to_thread(opened.facts.replace, keys, periods, people)
        opened.known_xid, opened.read_at = seen.oldest_xid, read_at
        self._opened[project_id] = opened
        self._opened.move_to_end(project_id)
        while len(self._opened) > _MOST_OPEN:
            self._opened.popitem(last=False)
        if opened.facts.changed > (MOST_CHANGED if opened.file else FEW_CUSTOMERS):
            self.build(project_id, now, opened.file)
        return opened.facts

    async def _identity(self, connection: Connection, project_id: str) -> tuple[Snapshot, str]:
        attributes = await chosen_attributes(connection, project_id)
        if attributes is None:
            raise NotFound(f"There is no project {project_id}.", param="project_id")
        seen = await snapshot(connection, project_id)
        parts = "\0".join((RULES, version("duckdb"), seen.epoch, *attributes))
        return seen, blake2b(parts.encode(), digest_size=8).hexdigest()

    def _newest(self, project_id: str, key: str) -> Path | None:
        return max(self._folder.glob(f"{project_id}.{key}.*.duckdb"), default=None)

    def _open(self, project_id: str, key: str) -> _Opened:
        """The newest file, if there is one."""
        while file := self._newest(project_id, key):
            try:
                return _Opened(ProjectFacts(self._folder, file), file, key, int(file.suffixes[-2][1:]))
            except Exception as error:
                # It was deleted just now, or its disk has failed.
                log.warning("a file of charts cannot be read", file=str(file), reason=str(error))
                file.unlink(missing_ok=True)
        return _Opened(ProjectFacts(self._folder), None, key, 0)

    def build(self, project_id: str, now: Ms, last: Path | None = None) -> asyncio.Task[None]:
        """Builds the file that comes after the last one, in the background."""
        task = self._building.get(project_id)
        if task is None:
            task = self._building[project_id] = asyncio.create_task(self._built(project_id, now, last))
            task.add_done_callback(lambda _: self._building.pop(project_id))
        return task

    async def _built(self, project_id: str, now: Ms, last: Path | None) -> None:
        """By this process, or by another one that has begun before."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with (self._folder / f"{project_id}.lock").open("ab") as lock:
                while not _locked(lock):  # noqa: ASYNC110 - another process has it
                    await asyncio.sleep(_LOOK_SECONDS)
                await self._write(project_id, now, last)
        except Exception:
            # Charts of a small project do without.
            log.exception("the file of charts was not built", project_id=project_id)

    async def _write(self, project_id: str, now: Ms, last: Path | None) -> None:
        for left in self._folder.glob(f"{project_id}.*/"):
            # Of a process that was killed.
            await asyncio.to_thread(rmtree, left, ignore_errors=True)
        with TemporaryDirectory(prefix=f"{project_id}.", dir=self._folder) as folder:
            periods, people, made = (Path(folder, one) for one in ("periods.csv", "customers.csv", "made.duckdb"))
            async with self.database.transaction(
                isolation="repeatable_read", readonly=True, statement_timeout_ms=_COPY_MS
            ) as connection:
                seen, key = await self._identity(connection, project_id)
                if self._newest(project_id, key) not in (None, last):
                    return
                await copy_rows(connection, project_id, periods, people)
            await _build(made, periods, people, now)
            file = self._folder / f"{project_id}.{key}.{seen.oldest_xid:020}.duckdb"
            made.replace(file)
        for other in self._folder.glob(f"{project_id}.*.duckdb"):
            if other != file:
                # A process that reads it keeps it open.
                other.unlink(missing_ok=True)


async def _build(made: Path, periods: Path, people: Path, now: Ms) -> None:
    """In a process of its own, whose memory is given back, and which yields to requests."""
    words = ("-m", project_facts.__name__, *map(str, (made, periods, people, now)))
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, start_new_session=True
    )
    try:
        _, said = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        raise RuntimeError(said.decode(errors="replace"))


def _locked(file: IO[bytes]) -> bool:
    """Whether no other process of this machine has it locked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
