"""Where each named statement runs, as a real cluster plans it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import asyncpg
import pytest

from latchkey.database.distribution.directory import load
from latchkey.database.distribution.statements import Apart, Home, Planned, routes
from latchkey.database.pool import connect
from latchkey.database.sql import query
from tests.citus.cluster import Cluster, Node
from tests.citus.moving import HOME, SHARDS
from tests.connections import connected

# What PostgreSQL says of a statement that cannot be: anything else is about the values, which are null here.
_UNFIT = (
    asyncpg.SyntaxOrAccessError,
    asyncpg.FeatureNotSupportedError,
    asyncpg.InternalServerError,
)
# They write nothing to tables, and have no plan.
_UTILITIES = {"lock_partitions"}


@pytest.fixture(scope="module")
async def spread(spread_url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection to a distributed database."""
    connection = await connect(spread_url)
    await connection.execute("set plan_cache_mode = force_custom_plan")
    yield connection
    await connection.close()


async def test_every_statement_goes_where_the_list_says(spread: asyncpg.Connection[asyncpg.Record]) -> None:
    calls = {row["name"]: row["call"] for row in await spread.fetch("select name, call from at_project.statements")}
    wrong = {}
    for name, route in routes().items():
        if isinstance(route, Apart) or name in _UTILITIES:
            continue
        try:
            found = await _plan(spread, calls.get(name) or query(name), is_call=name in calls)
        except _UNFIT as error:
            wrong[name] = f"{type(error).__name__}: {error}"
            continue
        tasks = [int(number) for number in re.findall(r"Task Count: (\d+)", found)]
        match route:
            case Home(quick=True):
                is_right = not tasks
            # None where the null leaves nothing to ask for.
            case Home():
                is_right = set(tasks) <= {0, 1}
            case Planned():
                is_right = tasks in ([SHARDS], [0])
            case _:
                is_right = tasks == [1]
        if not is_right:
            wrong[name] = f"tasks {tasks}"
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())


async def test_every_statement_can_run_on_a_shard(spread: asyncpg.Connection[asyncpg.Record]) -> None:
    """With nulls, and undone: what is wrong in the text, or names a table or column that a shard lacks, shows."""
    wrong = {}
    for row in await spread.fetch("select name, call from at_project.statements"):
        undo = spread.transaction()
        await undo.start()
        try:
            prepared = await spread.prepare(row["call"])
            arguments = [None] * len(prepared.get_parameters())
            if "at_project." in row["call"]:
                await prepared.fetch("some project", *arguments[1:])
            else:
                await prepared.fetch(*arguments)
        except _UNFIT as error:
            wrong[row["name"]] = f"{type(error).__name__}: {error}"
        except asyncpg.PostgresError:
            # About the nulls.
            pass
        finally:
            await undo.rollback()
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())


async def test_every_read_can_be_asked_of_its_node(
    citus: Cluster, spread_url: str, spread: asyncpg.Connection[asyncpg.Record]
) -> None:
    """As a call of the shard's function, of which every node has those of its shards. Before that, it looks once
    whether the shard is there."""
    home = await spread.fetchrow(HOME, "some project")
    assert home is not None
    address = citus.url(spread_url.rpartition("/")[2], Node(home["host"], home["port"]))
    directory = await load(spread)
    reads = {name: call.direct for name, call in directory.on_shards.items() if call.direct is not None}
    assert {"read_leased", "events_after_event"} <= set(reads)
    async with connected(connect(address)) as node:
        for name, direct in reads.items():
            plan = await _plan(node, direct.format(shard=home["shard"]), is_call=True)
            assert f"One-Time Filter: at_node.serves('{home['shard']}'" in plan, f"{name}: {plan}"


async def _plan(connection: asyncpg.Connection[asyncpg.Record], text: str, *, is_call: bool) -> str:
    types = [one.name for one in (await connection.prepare(text)).get_parameters()]
    values = ["null"] * len(types)
    if is_call and "at_project." in text:
        values[0] = "'some project'"
    declared = f" ({', '.join(types)})" if types else ""
    await connection.execute(f"prepare it{declared} as {text}")
    try:
        rows = await connection.fetch("explain execute it" + (f"({', '.join(values)})" if values else ""))
    finally:
        await connection.execute("deallocate it")
    return "\n".join(row[0] for row in rows)
