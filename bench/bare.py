"""A bare delivery loop, the ceiling of deliveries: it claims, sends and records, and knows no rules.

Run as its own process, it works off what `bench.ceilings steady` queues: `python -m bench.bare DATABASE_URL TARGET
AUTHORITY`; it prints "ready".
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import Any

import asyncpg
import uvloop
from pyreqwest.client import Client, ClientBuilder

from latchkey.database.pool import Database, connect
from latchkey.garbage import collect_seldom
from latchkey.now import real_now

CHANNEL = "bare"
# At once: while one claims, another sends and a third records. 390 in flight, like ours.
LOOPS = 3
AT_ONCE = 130

TABLES = """
drop table if exists bare_rows, bare_queue, bare_attempts;
create table bare_rows (
    id bigint generated always as identity primary key, name text not null, at bigint not null, body json not null
);
create table bare_queue (
    id bigint primary key, body json not null, status text not null default 'waiting',
    lease_until bigint not null default 0
) with (fillfactor = 65);
create index on bare_queue (id) where status = 'waiting';
create table bare_attempts (id bigint primary key, at bigint, status integer, body bytea);
"""
INSERT = f"""
with made as (
    insert into bare_rows (name, at, body) select name, $2, $3::json from unnest($1::text[]) as asked (name)
    returning id, body
), queued as (
    insert into bare_queue (id, body) select id, body from made returning id
)
select pg_notify('{CHANNEL}', '') from queued limit 1
"""
CLAIM = f"""
update bare_queue q set lease_until = $1
from (
    select id from bare_queue where status = 'waiting' and lease_until < $2
    order by id limit {AT_ONCE} for update skip locked
) p
where q.id = p.id
returning q.id, q.body
"""
RECORD = """
with done as (
    insert into bare_attempts
    select n.id, $4, n.status, n.body from unnest($1::bigint[], $2::integer[], $3::bytea[]) as n (id, status, body)
    returning id
)
update bare_queue q set status = 'delivered' from done where q.id = done.id
"""


def sender(authority: Path) -> Client:
    return ClientBuilder().add_root_certificate_pem(authority.read_bytes()).follow_redirects(False).build()


async def work_off(pool: asyncpg.Pool[asyncpg.Record], http: Client, target: str) -> None:
    """Until a claim finds less than it may take. What is queued later is announced."""

    async def post(id: int, body: bytes) -> tuple[int, int, bytes]:
        request = http.post(target).header("webhook-id", str(id)).header("content-type", "application/json")
        response = await request.body_bytes(b'{"api_version":"1.0","event":' + body + b"}").build().send()
        return id, response.status, bytes(await response.bytes())

    claimed = AT_ONCE
    while claimed == AT_ONCE:
        rows = await pool.fetch(CLAIM, real_now() + 75_000, real_now())
        claimed = len(rows)
        if rows:
            sent = await asyncio.gather(*(post(row["id"], row["body"]) for row in rows))
            ids, statuses, bodies = map(list, zip(*sent, strict=True))
            await pool.execute(RECORD, ids, statuses, bodies, real_now())


async def main(url: str, target: str, authority: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    # One place: many announcements at once are one.
    announced: asyncio.Queue[None] = asyncio.Queue(1)

    def heard(*_: Any) -> None:
        with contextlib.suppress(asyncio.QueueFull):
            announced.put_nowait(None)

    async def loop(database: Database, http: Client) -> None:
        while True:
            await announced.get()
            await work_off(database.pool, http, target)

    http = await asyncio.to_thread(sender, Path(authority))
    async with Database(url, max_size=4, application_name="bare delivery") as database, http:
        listening = await connect(url, application_name="bare listening")
        await listening.add_listener(CHANNEL, heard)
        loops = [asyncio.create_task(loop(database, http)) for _ in range(LOOPS)]
        collect_seldom()
        print("ready", flush=True)
        await stop.wait()
        for task in loops:
            task.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await listening.close()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
