"""What is looked at every few seconds: processes, tables, disk, and how long everything took."""

import asyncio
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil  # type: ignore[import-untyped]  # its stubs are a separate package
from msgspec import Struct, field

from bench.buying import API, System
from bench.processor import spent_ms
from bench.soak.load import RECEIVER, Life

MIB = 1024**2
POSTGRESQL, SHARED, SUPERVISOR = "PostgreSQL", "PostgreSQL, shared", "supervisor"
_NAMES = {"api,delivery": "API and delivery", "postgres": POSTGRESQL}
# Of the arrivals since the last sample so many are looked up.
LOOKED_UP = 300

TABLES = """
select coalesce(root.relname, c.relname) as name, sum(pg_stat_get_live_tuples(c.oid))::bigint as rows,
    sum(pg_total_relation_size(c.oid))::bigint as bytes, sum(pg_stat_get_dead_tuples(c.oid))::bigint as dead
from pg_class c left join pg_class root on root.oid = pg_partition_root(c.oid) and root.oid <> c.oid
where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
group by 1
"""
CONNECTIONS = "select count(*) from pg_stat_activity where backend_type = 'client backend'"
EVENTS = "select coalesce(sum(position), 0)::bigint from feeds"
COMMITTED = "select id, committed_at from events where id = any($1)"


class TableSample(Struct, frozen=True, array_like=True):
    rows: int
    # With indexes.
    bytes: int
    dead: int


class Timing(Struct, frozen=True, array_like=True):
    count: int
    p50: float
    p99: float


class Sample(Struct, frozen=True, kw_only=True):
    # Seconds since the load began.
    at: float
    purchases: int
    events: int
    # MiB by role: what its processes have for themselves and their part of what they share; files and sockets; and
    # CPU milliseconds since the last sample.
    memory: dict[str, float]
    files: dict[str, int]
    cpu: dict[str, float]
    connections: int
    tables: dict[str, TableSample]
    # MiB, by what it is.
    disk: dict[str, float]
    timings: dict[str, Timing]
    # Since the start.
    errors: dict[str, int] = field(default_factory=dict)


class Watch:
    """Looks at a system. What cannot be read is left out of the sample: a process may be gone at any moment."""

    def __init__(self, system: System, life: Life, folder: Path) -> None:
        self._system, self._life, self._folder = system, life, folder
        self._supervisor = psutil.Process(system.pids[API][0]).ppid()
        self._began = time.monotonic()
        self._spent: dict[str, float] = {}
        # How far the receiver's log was read.
        self._read = 0

    async def sample(self) -> Sample:
        at, taken = time.monotonic() - self._began, self._life.since_the_last_sample()
        async with self._system.database.acquire() as connection:
            tables = {name: TableSample(*rest) for name, *rest in await connection.fetch(TABLES)}
            connections, events = await connection.fetchval(CONNECTIONS), await connection.fetchval(EVENTS)
        taken[RECEIVER] = await self._waits()
        memory, files, cpu = await asyncio.to_thread(self._processes)
        return Sample(
            at=round(at, 1),
            purchases=self._life.purchases,
            events=events,
            memory=memory,
            files=files,
            cpu=cpu,
            connections=connections,
            tables=tables,
            disk=await asyncio.to_thread(self._disk),
            timings={kind: _timing(values) for kind, values in taken.items() if values},
            errors=dict(self._life.errors),
        )

    def _processes(self) -> tuple[dict[str, float], dict[str, int], dict[str, float]]:
        memory, files, spent = defaultdict[str, float](float), Counter[str](), defaultdict[str, float](float)
        for role, process in self._roles():
            for one in (process, *(process.children(recursive=True) if role != SUPERVISOR else ())):
                own, shared, opened = _look(one.pid)
                memory[role] += own
                memory[SHARED if role == POSTGRESQL else role] += shared
                files[role] += opened
            if role != SUPERVISOR:
                with suppress(psutil.Error):
                    spent[role] += spent_ms(process.pid)
        since = {role: round(max(0.0, ms - self._spent.get(role, ms)), 1) for role, ms in spent.items()}
        self._spent = spent
        return {role: round(mib, 2) for role, mib in memory.items()}, dict(files), since

    def _roles(self) -> Iterator[tuple[str, psutil.Process]]:
        supervisor = psutil.Process(self._supervisor)
        yield SUPERVISOR, supervisor
        for child in supervisor.children():
            with suppress(psutil.Error):
                name = child.name()
                yield _NAMES.get(name, name), child

    def _disk(self) -> dict[str, float]:
        found = Counter[str]()
        for folder, _, names in os.walk(self._folder):
            inside = Path(folder).relative_to(self._folder).parts
            for name in names:
                with suppress(OSError):
                    found[_place(inside, name)] += (Path(folder) / name).stat().st_blocks * 512
        return {place: round(size / MIB, 2) for place, size in found.items()}

    async def _waits(self) -> list[float]:
        """Milliseconds from the commit of some of the events that have arrived since, to their arrival."""
        with self._system.arrivals.open("rb") as log:
            log.seek(self._read)
            new = log.read()
        new = new[: new.rfind(b"\n") + 1]
        self._read += len(new)
        lines = new.decode().splitlines()
        chosen = random.sample(lines, min(len(lines), LOOKED_UP))
        arrived = {id: int(at) / 1000 for at, _, id in (line.split(" ") for line in chosen)}
        rows = await self._system.database.pool.fetch(COMMITTED, list(arrived))
        return [max(0.0, arrived[row["id"]] - row["committed_at"]) for row in rows]


def _look(pid: int) -> tuple[float, float, int]:
    """MiB of a process, without and with what it shares through shared memory, and its open files."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        sizes = {name: int(size) for name, size, *_ in (line.replace(":", "").split() for line in lines)}
        shared = sizes.get("Pss_Shmem", 0)
        return (sizes["Pss"] - shared) / 1024, shared / 1024, len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, KeyError, ValueError):
        return 0.0, 0.0, 0


def _place(inside: tuple[str, ...], name: str) -> str:
    if name.endswith((".log", ".log.1")):
        return "logs"
    if inside[:1] == ("postgres",):
        return "database's log (WAL)" if inside[1:2] == ("pg_wal",) else "tables and indexes"
    return inside[0] if inside else "other files"


def _timing(values: list[float]) -> Timing:
    ordered = sorted(values)
    p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    return Timing(len(ordered), round(p50, 2), round(p99, 2))


def read_samples(path: Path) -> list[Sample]:
    """Also of a run that was cut off in the middle of a line."""
    found = []
    for line in path.read_bytes().splitlines():
        with suppress(msgspec.MsgspecError):
            found.append(msgspec.json.decode(line, type=Sample))
    return found


async def keep_sampling(watch: Watch, path: Path, every: float, said: Callable[[Sample], None]) -> None:
    """For ever, a line for each. A sample that fails is left out."""
    loop = asyncio.get_running_loop()
    at = loop.time()
    with path.open("ab") as file:
        while True:
            try:
                async with asyncio.timeout(60):
                    sample = await watch.sample()
                file.write(msgspec.json.encode(sample) + b"\n")
                file.flush()
                said(sample)
            except Exception as error:
                print(f"no sample: {type(error).__name__} {error}", flush=True)
            at = max(at + every, loop.time())
            await asyncio.sleep(at - loop.time())
