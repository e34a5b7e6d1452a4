"""A plain database that has rows becomes a distributed one, also after interruptions."""

from __future__ import annotations

import re

import asyncpg

from latchkey.database.distribution.distribute import distribute, undistributed
from latchkey.database.distribution.nodes import is_distributed
from latchkey.database.distribution.statements import TABLES
from latchkey.database.migrate import commands, migrate, migrations
from latchkey.database.pool import Database, connect
from latchkey.database.sql import query
from latchkey.subjects.demo.usecases.project import Demo, ensure_demo
from tests.http.client import NOW
from tests.http.doings import did
from tests.http.fixtures import opened

SHARDS = 4
SCHEMA = "".join(migration.text for migration in migrations())
# What a distributed database has beyond the rows it came with, or keeps elsewhere.
_ITS_OWN = {"customer_keys", "schema_migrations", "rate_windows"}


class Interrupted(Exception):
    """Somebody pulled the plug."""


async def test_rows_stay_as_they_are_although_it_is_interrupted_again_and_again(citus_url: str) -> None:
    connection = await connect(citus_url)
    await migrate(connection)
    async with Database(citus_url) as database:
        demo = await ensure_demo(database, NOW, secret_key=None, public_key=None)
        await live(database, demo, range(3))
        told = await feed(database, demo)
    before = await rows_of(connection)
    await connection.close()

    # Each attempt gets a little further than the one before.
    for steps in (0, 1, 21, 24, 38):
        await interrupted_after(citus_url, steps)
    connection = await connect(citus_url)
    assert await is_distributed(connection), "an interrupted one must not be used as a plain one"
    await distribute(connection, shards=SHARDS)

    assert await undistributed(connection) == []
    assert await rows_of(connection) == before
    keys = await foreign_keys(connection)
    assert len(keys) > 40

    # A later release has new tables: the foreign keys of the others stay as they are.
    for table in ("import_skips", "chart_customers"):
        await connection.execute(f"drop table {table}")
        for command in commands(SCHEMA):
            if re.search(rf"^create table {table} ", command, re.MULTILINE):
                await connection.execute(command)
    stayed = {key: oid for key, oid in (await foreign_keys(connection)).items() if key[0] != "import_skips"}
    await distribute(connection)
    assert await undistributed(connection) == []
    after = await foreign_keys(connection)
    assert after.keys() == keys.keys()
    assert stayed.items() <= after.items()
    await connection.close()
    async with Database(citus_url) as database:
        assert await feed(database, demo) == told
        await live(database, demo, range(3, 5))
        assert (await feed(database, demo))[: len(told)] == told
        assert len(await feed(database, demo)) > len(told)


async def live(database: Database, demo: Demo, numbers: range) -> None:
    async with opened(database, demo) as shop:
        for number in numbers:
            await did(shop, "purchase", f"user {number}", "pro_monthly")
            await did(shop, "renew", f"user {number}")


async def feed(database: Database, demo: Demo) -> list[tuple[int, bytes]]:
    return [
        tuple(row) for row in await database.pool.fetch(query("events_of_project"), demo.project_id, 0, 2**62, 1000)
    ]


async def interrupted_after(url: str, steps: int) -> None:
    connection = await connect(url)
    heard: list[str] = []

    def told(words: str) -> None:
        heard.append(words)
        if len(heard) > steps:
            raise Interrupted

    try:
        await distribute(connection, told, shards=SHARDS)
    except Interrupted:
        pass
    finally:
        connection.terminate()


async def rows_of(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, list[str]]:
    await connection.execute("set plan_cache_mode = auto")
    return {
        table: sorted(row[0] for row in await connection.fetch(f"select to_jsonb(t)::text from {table} t"))
        for table in TABLES
        if table not in _ITS_OWN
    }


async def foreign_keys(connection: asyncpg.Connection[asyncpg.Record]) -> dict[tuple[str, str], int]:
    """The ids of all foreign keys, by table and name."""
    rows = await connection.fetch(
        "select r.relname::text, c.conname::text, c.oid::bigint"
        " from pg_constraint c join pg_class r on r.oid = c.conrelid"
        " where c.contype = 'f' and r.relname = any($1::text[]) and r.relnamespace = 'public'::regnamespace",
        list(TABLES),
    )
    return {(table, name): oid for table, name, oid in rows}
