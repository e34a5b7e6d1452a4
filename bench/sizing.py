"""Disk and memory, for docs/sizing.md: what a customer, an event, a delivery and an attempt take, and each process.

Real purchases are made and delivered by real processes. Then the database copies their rows under other keys, so that
the tables are large enough to tell what a row takes, indexes included.
"""

import asyncio
from collections.abc import Mapping, Sequence

import psutil  # type: ignore[import-untyped]  # its stubs are a separate package

from bench.buying import API, OTHERS, POSTGRESQL, apart
from bench.ground import Ground
from bench.load import measure
from bench.table import Row, say
from latchkey.subjects.deployment import storage as looking

PURCHASES = 1_000
COPIES = 200
CHUNK = 20
CONNECTIONS = 64
MIB = 1024**2

# A column of a copy, where it differs from the row that is copied; k is the number of the copy.
_OTHER_CUSTOMER = "customer_id + k * 1000000000"
CHANGED: Mapping[str, Mapping[str, str]] = {
    "customers": {
        "id": "id + k * 1000000000",
        "app_user_id": "app_user_id || '-' || k",
    },
    "aliases": {"app_user_id": "app_user_id || '-' || k", "customer_id": _OTHER_CUSTOMER},
    "purchase_owners": {"store_id": "store_id || '-' || k", "customer_id": _OTHER_CUSTOMER},
    "chart_periods": {"purchase": "md5(purchase::text || k)::uuid", "customer_id": _OTHER_CUSTOMER},
    "customer_facets": {"customer_id": _OTHER_CUSTOMER},
    "events": {
        "position": "position + k * 1000000000",
        # As random as the ids of real events.
        "id": "substr(md5(id || k) || md5(k || id), 1, length(id))",
        "customer_id": _OTHER_CUSTOMER,
    },
    "deliveries": {"event_id": "md5(event_id || k)", "customer_id": _OTHER_CUSTOMER},
    "attempts": {"customer_id": _OTHER_CUSTOMER},
}
CUSTOMER = ("customers", "aliases", "purchase_owners", "chart_periods", "customer_facets")
_LOG = "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
_COLUMNS = """
select array_agg(column_name::text order by ordinal_position) from information_schema.columns
where table_schema = 'public' and table_name = $1 and is_generated = 'NEVER'
"""


async def run(ground: Ground) -> list[Row]:
    async with apart(ground) as system:
        say(f"{PURCHASES:,} purchases and their deliveries")
        buyer = await system.buyer("sized", PURCHASES)
        before = await ground.database.pool.fetchval(_LOG)
        await measure(buyer, CONNECTIONS, PURCHASES)
        await system.until_recorded(PURCHASES)
        await _lists(ground)
        written = await ground.database.pool.fetchval(_LOG) - before
        rows = [Row("log (WAL) of a purchase and its delivery", float(written / PURCHASES), "bytes")]
        rows += _memory(system.pids)
    await ground.database.pool.execute("truncate lanes")
    for table, changed in CHANGED.items():
        say(f"{table}: {COPIES} copies of each row")
        await _copy(ground, table, changed)
    await ground.database.pool.execute("vacuum analyze", timeout=600)
    return _sizes(await _measured(ground)) + rows


async def _lists(ground: Ground) -> None:
    """Wait until the customer lists have every event, or give up after a minute and measure without them."""
    behind = "select exists (select from facet_rolls r join feeds f using (project_id) where r.position < f.position)"
    for _ in range(600):
        if not await ground.database.pool.fetchval(behind):
            return
        await asyncio.sleep(0.1)


async def _copy(ground: Ground, table: str, changed: Mapping[str, str]) -> None:
    pool = ground.database.pool
    columns = await pool.fetchval(_COLUMNS, table)
    values = ", ".join(changed.get(column, column) for column in columns)
    await pool.execute(f"create table copied_{table} as select * from {table}")
    for first in range(1, COPIES + 1, CHUNK):
        # Copy after copy: as if they had come one after the other.
        await pool.execute(
            f"insert into {table} ({', '.join(columns)}) overriding system value"
            f" select {values} from copied_{table}, generate_series({first}::bigint, {first + CHUNK - 1}) k order by k",
            timeout=600,
        )
    await pool.execute(f"drop table copied_{table}")


async def _measured(ground: Ground) -> dict[str, tuple[int, int]]:
    """Bytes and rows of each table."""
    async with ground.database.acquire() as connection:
        tables, _ = await looking.tables(connection)
        counted = {name: await connection.fetchval(f"select count(*) from {name}") for name in CHANGED}
    return {table.name: (table.bytes, counted[table.name]) for table in tables if table.name in counted}


def _sizes(measured: Mapping[str, tuple[int, int]]) -> list[Row]:
    def each(table: str) -> float:
        size, rows = measured[table]
        return size / rows

    customers = measured["customers"][1]
    of_customer = sum(measured[table][0] for table in CUSTOMER) / customers
    rows = [Row("a customer with one subscription, its id, charts and list", of_customer, "bytes")]
    rows += [Row(f"of it {table}", measured[table][0] / customers, "bytes") for table in CUSTOMER]
    rows += [Row(f"{what}, with indexes", each(table), "bytes") for what, table in (
        ("an event", "events"), ("a delivery", "deliveries"), ("an attempt", "attempts"),
    )]  # fmt: skip
    whole = each("events") + each("deliveries") + each("attempts")
    rows.append(Row("an event delivered to one webhook at the first attempt", whole, "bytes"))
    return rows


def _memory(pids: Mapping[str, Sequence[int]]) -> list[Row]:
    """What each process has for itself, and its part of what it shares."""
    rows = [Row(f"memory: {name}", _pss(psutil.Process(pids[name][0])), "MiB") for name in (API, OTHERS)]
    server = psutil.Process(pids[POSTGRESQL][0])
    backends = [child for child in server.children() if "latchkey" in " ".join(child.cmdline())]
    if backends:
        own = sum(one.memory_full_info().uss for one in backends) / len(backends) / MIB
        rows.append(Row(f"memory: a connection of PostgreSQL, mean of {len(backends)}", own, "MiB"))
    return rows


def _pss(process: psutil.Process) -> float:
    return float(process.memory_full_info().pss / MIB)
