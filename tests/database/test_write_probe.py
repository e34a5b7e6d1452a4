"""The check whether the database accepts changes runs at most once in a period, and its result is kept no longer."""

import asyncio

import asyncpg
import pytest

from latchkey.database.pool import Database
from latchkey.database.transient_errors import WriteProbe

WRITTEN = "select pg_current_wal_insert_lsn()::text"


async def test_asking_often_writes_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    # Counted here and not by the position of the log, which PostgreSQL itself moves now and then.
    write, writes = WriteProbe._write, []

    async def counted(probe: WriteProbe) -> None:
        writes.append(probe)
        await write(probe)

    monkeypatch.setattr(WriteProbe, "_write", counted)
    probe = WriteProbe(database, lasts_seconds=3600)
    for _ in range(2):
        await asyncio.gather(*(probe.check() for _ in range(10)))
    assert writes == [probe]


async def test_a_probe_really_writes(database: Database) -> None:
    before = await database.pool.fetchval(WRITTEN)
    await WriteProbe(database).check()
    assert await database.pool.fetchval(WRITTEN) != before
    async with database.acquire() as connection:
        await connection.execute("set work_mem = '64kB'")
        spilt = await connection.fetch("explain (analyze) " + _probe())
        await connection.execute("reset work_mem")
    assert any("Storage: Disk" in row[0] for row in spilt)


async def test_a_failure_is_told_until_the_next_probe_and_no_longer(database: Database) -> None:
    probe = WriteProbe(database, lasts_seconds=0)
    async with Database(database.url, max_size=1) as broken:
        await broken.pool.execute("set default_transaction_read_only = on")
        failing = WriteProbe(broken, lasts_seconds=0)
        for _ in range(2):
            with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
                await failing.check()
        await broken.pool.execute("set default_transaction_read_only = off")
        await failing.check()
    await probe.check()


def _probe() -> str:
    from latchkey.database.sql import query

    return query("write_probe")
