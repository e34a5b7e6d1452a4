"""Many subscriptions that end in the same second: how long until every EXPIRATION is committed."""

import asyncio
import time

from bench.ceilings import STATE
from bench.ground import Ground
from bench.population import settle, subscriber
from bench.table import Row
from latchkey.domain.instants import SECOND, Duration, Ms, add
from latchkey.now import real_now

COUNT = 100_000
BAR = 60
AT_ONCE = 500

BARE_TAKE = """
select id from customers where project_id = 'proj_demo' and app_user_id like 'bare%' and next_due_at is not null
limit $1 for update skip locked
"""
BARE_SAVE = """
update customers c set state = n.state, next_due_at = null
from unnest($1::bigint[], $2::json[]) as n (id, state) where c.project_id = 'proj_demo' and c.id = n.id
"""
BARE_TELL = """
with head as (update feeds set position = position + $3 where project_id = 'proj_demo' returning position)
insert into events
select 'proj_demo', head.position - $3 + made.place, gen_random_uuid()::text, made.customer_id, 9, 'EXPIRATION',
    'PRODUCTION', null, 0, 0, $2::json
from unnest($1::bigint[]) with ordinality as made (customer_id, place), head
"""


async def run(ground: Ground, count: int = COUNT) -> list[Row]:
    # Bought a month before the second in which all of them end, a few seconds from now.
    ends_at = real_now() // SECOND * SECOND + (10 + count // 4_000) * SECOND
    customer = subscriber(_month_before(ends_at), cancelled=True)
    await settle(ground.database, "storm", customer, count)
    await settle(ground.database, "bare", customer, count)
    ceiling = await _bare(ground, count)
    async with ground.database.acquire() as connection:
        await connection.execute("checkpoint")
    wait = ends_at - real_now()
    if wait > 0:
        await asyncio.sleep(wait / 1000)
    began = time.perf_counter()
    async with ground.service("clock"):
        while True:
            async with ground.database.acquire() as connection:
                told = await connection.fetchval(
                    "select count(*) from events where type = 'EXPIRATION' and sequence = 3"
                )
            if told >= count or time.perf_counter() - began > 300:
                break
            await asyncio.sleep(0.2)
    taken = time.perf_counter() - began
    assert told == count, f"{told} of {count} expirations"
    row = Row(
        f"{count:,} subscriptions ending at once", taken, "s", ceiling, ceiling / taken, f"≤ {BAR} s", taken <= BAR
    )
    return [row]


async def _bare(ground: Ground, count: int) -> float:
    """The same rows read, written and their events inserted, without any rules in between."""
    began = time.perf_counter()
    left = count
    while left > 0:
        async with ground.database.transaction() as connection:
            ids = [row["id"] for row in await connection.fetch(BARE_TAKE, AT_ONCE)]
            await connection.execute(BARE_SAVE, ids, [STATE] * len(ids))
            await connection.execute(BARE_TELL, ids, STATE, len(ids))
        left -= len(ids)
    return time.perf_counter() - began


def _month_before(at: Ms) -> Ms:
    """The instant one calendar month before `at`."""
    for days in range(28, 32):
        start = at - days * 86_400_000
        if add(start, Duration(months=1)) == at:
            return start
    raise ValueError("no such instant: choose another day")
