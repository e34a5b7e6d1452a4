"""What bounds one project: its feed's lock, which every write of events holds until its commit.

Several writers write batches of purchases, first all of one project, then each of a project of its own. Only what a
change writes is measured (one call of `write_changes`), without the rules and without HTTP.
"""

import asyncio
import itertools
import time
from collections.abc import Sequence
from statistics import median
from typing import Any
from unittest import mock

from msgspec import structs
from msgspec.structs import replace

from bench.ground import Ground
from bench.table import Row, say
from latchkey.database.pool import Database
from latchkey.domain.stores.test_store.orders import Action
from latchkey.engine import changes as engine
from latchkey.engine.storage.writes import Writes, Written, write, write_at_once
from latchkey.now import real_now
from latchkey.subjects.demo.usecases.project import add_catalog
from latchkey.subjects.projects.usecases import create_project
from latchkey.subjects.test_store import usecases as test_store

SECONDS = 3.0
ROUNDS = 3
WRITERS = 6
BATCHES = (1, 28)
# How often somebody looks whether the feed is locked.
LOOKS = 0.002
_LOCKED = "select 1 from feeds where project_id = $1 for update skip locked"

_numbers = itertools.count()


async def run(ground: Ground) -> list[Row]:
    async with Database(ground.server.url(), max_size=WRITERS + 2) as database:
        projects = [f"proj_feed{number}" for number in range(WRITERS)]
        for project in projects:
            await create_project(database, project, real_now(), project_id=project)
            await add_catalog(database, project, real_now())
        example = await _example(database, projects[0])
        rows = []
        for batch in BATCHES:
            shared: list[float] = []
            apart: list[float] = []
            alone: list[float] = []
            held: list[float] = []
            for number in range(1, ROUNDS + 1):
                say(f"feed: batches of {batch}, round {number} of {ROUNDS}")
                rate, locked = await _rate(database, example, projects[:1], batch, look_at=projects[0])
                alone.append(rate)
                held.append(locked / rate * 1000)
                shared.append((await _rate(database, example, projects[:1] * WRITERS, batch))[0])
                apart.append((await _rate(database, example, projects, batch))[0])
            lone, one, each = median(alone), median(shared), median(apart)
            rows += [
                Row(f"feed: one writer, batches of {batch}", lone, "commits/s"),
                Row(f"feed: its lock is held, batches of {batch}", median(held), "ms"),
                Row(f"feed: {WRITERS} writers of one project, batches of {batch}", one, "commits/s", each, one / each),
                Row(f"feed: events of that project, batches of {batch}", one * batch, "/s", each * batch, one / each),
            ]
    return rows


async def _example(database: Database, project_id: str) -> Writes:
    """What a real purchase of a new customer writes."""
    caught: list[Writes] = []
    real = write_at_once

    async def catching(connection: Any, writes: Writes, now: int, *lease: Any) -> Written:
        caught.append(writes)
        return await real(connection, writes, now, *lease)

    with mock.patch.object(engine, "write_at_once", catching):
        changes = engine.Changes(database, real_now)
        action = Action(name="purchase", app_user_id="example", new_id="test_example", product_id="pro_monthly")
        await test_store.act(changes, project_id, action)
        await changes.drain()
    (found,) = caught
    return found


def _copies(example: Writes, project_id: str, count: int) -> Writes:
    """The same for so many other customers."""
    (made,), (owned,), (told,) = example.created, example.owned, example.events
    writes = Writes(project_id)
    for who in range(-1, -count - 1, -1):
        name = f"feed{next(_numbers)}"
        customer = replace(made.after, project_id=project_id, app_user_id=name, original_app_user_id=name)
        writes.created.append(made._replace(after=customer))
        writes.owned.append(structs.replace(owned, who=who, id=name))
        writes.events.append((who, structs.replace(told[1], id=name)))
    return writes


async def _rate(
    database: Database, example: Writes, projects: Sequence[str], batch: int, look_at: str = ""
) -> tuple[float, float]:
    """Commits a second by a writer for each of these projects; and the share of the time in which the feed of `look_at`
    was locked."""
    done = 0
    until = time.perf_counter() + SECONDS

    async def writer(project_id: str) -> None:
        nonlocal done
        async with database.acquire() as connection:
            while time.perf_counter() < until:
                await write(connection, _copies(example, project_id, batch), real_now())
                done += 1

    looks: list[bool] = []

    async def watcher() -> None:
        async with database.acquire() as connection:
            while time.perf_counter() < until:
                looks.append(await connection.fetchval(_LOCKED, look_at) is None)
                await asyncio.sleep(LOOKS)

    began = time.perf_counter()
    await asyncio.gather(*(writer(project) for project in projects), *([watcher()] if look_at else []))
    took = time.perf_counter() - began
    return done / took, sum(looks) / len(looks) if looks else 0.0
