"""Bare handlers: the same server, TLS, pool of connections and batching, and nothing else. The ratios divide by these.

Run as its own process: `python -m bench.ceilings FD NAME DATABASE_URL CERT KEY`.
"""

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from itertools import count
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

import uvloop

from bench.bare import INSERT
from bench.population import CATALOG, NAME, subscriber
from latchkey.database.pool import Database
from latchkey.database.sql import query
from latchkey.domain.customers.customer import LastSeen, newcomer
from latchkey.engine.batch import Batch
from latchkey.engine.storage.records import Stored
from latchkey.engine.storage.writes import write
from latchkey.engine.unit_of_work import UnitOfWork
from latchkey.now import real_now
from latchkey.server import Listener
from latchkey.settings import Settings
from latchkey.subjects.demo.usecases.project import PROJECT_ID

READ = """
select c.state
from unnest($1::text[]) with ordinality as asked (app_user_id, place)
join aliases a on a.project_id = 'proj_demo' and a.app_user_id = asked.app_user_id
join customers c on c.project_id = a.project_id and c.id = a.customer_id
order by asked.place
"""
STATE = b'{"subscriptions":[{"periods":[' + b'{"id":"a","price":{"micros":9990000}},' * 20 + b"0]}]}"

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Bare:
    """An ASGI application around one handler, which gets the last part of the path and the body."""

    def __init__(self, answer: Callable[[str, bytes], Awaitable[bytes]]) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
                if message["type"] == "lifespan.shutdown":
                    return
        body, more = b"", scope["method"] == "POST"
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        answer = await self._answer(scope["path"].rpartition("/")[2], body)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


def reads(database: Database) -> Bare:
    async def answer(ids: list[str]) -> list[bytes]:
        async with database.at_hand() as connection:
            return [row[0] for row in await connection.fetch(READ, ids)]

    batch = Batch(answer)
    return Bare(lambda id, _: batch.ask(id))


def steady(database: Database) -> Bare:
    """One row and its place in the queue that `bench.bare` works off."""

    async def answer(names: list[str]) -> list[bytes]:
        async with database.at_hand() as connection:
            await connection.execute(INSERT, names, real_now(), STATE)
        return [STATE for _ in names]

    batch = Batch(answer)
    return Bare(lambda name, _: batch.ask(name))


class _Kept:
    """In place of a connection: what would be written."""

    arguments: tuple[Any, ...] = ()

    async def fetchval(self, *arguments: Any) -> bytes:
        self.arguments = arguments
        return b"{}"


async def rows(database: Database) -> Bare:
    """The look and the write of a purchase by a new customer, with the statements of Latchkey: the rules have run once,
    before, and only ids and names differ."""
    now, kept, numbers = real_now(), _Kept(), count()
    unit, buyer = UnitOfWork(now), newcomer(PROJECT_ID, NAME, now)
    unit.change(Stored(-1, buyer, LastSeen(now)), subscriber(now), CATALOG, now)
    (writes,) = unit.plan().writes
    await write(cast("Any", kept), writes, now)
    statement, *_, changes, documents = kept.arguments
    purchase, event = writes.periods[0].purchase.encode(), writes.events[0][1].id.encode()
    look = query("look_at_customers")

    async def answer(names: list[str]) -> list[bytes]:
        async with database.at_hand() as connection:
            for name in names:
                buyer, id = f"{name}-{next(numbers)}", uuid4()

                def own(text: bytes, buyer: bytes = buyer.encode(), id: UUID = id) -> bytes:
                    text = text.replace(NAME.encode(), buyer).replace(event, str(id).encode())
                    return text.replace(purchase, id.hex.encode())

                await connection.fetch(look, PROJECT_ID, [buyer], ["test_store"], [f"test_{buyer}"])
                written = [own(document) for document in documents]
                await connection.fetchval(statement, PROJECT_ID, real_now(), own(changes), written)
        return [STATE for _ in names]

    batch = Batch(answer)
    return Bare(lambda name, _: batch.ask(name))


async def main(fd: int, name: str, url: str, cert: str, key: str) -> None:
    settings = Settings(database_url=url, tls_cert=Path(cert), tls_key=Path(key))
    async with Database(url, max_size=4, application_name=f"bare {name}") as database:
        application = await rows(database) if name == "rows" else {"reads": reads, "steady": steady}[name](database)
        await Listener(application, socket.socket(fileno=fd), settings).serve()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1]), *sys.argv[2:]))
