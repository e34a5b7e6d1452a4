"""The consumer and its ceiling, each as its own process.

`python -m bench.consuming FD consumer` is the real consumer, from its settings in the environment.
`python -m bench.consuming FD insert DATABASE_URL CERT KEY` is the bare handler: the same server, TLS and batching, and
one insert of the event for each request.
"""

import asyncio
import signal
import socket
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop
from msgspec import Struct, json

from bench.ceilings import Bare
from latchkey import logs
from latchkey.consumer.consumer_settings import Settings as ConsumerSettings
from latchkey.database.pool import Database
from latchkey.engine.batch import Batch
from latchkey.process.up.consumer_server import serve
from latchkey.server import Listener
from latchkey.settings import Settings

TABLE = "create table if not exists bare_events (id text primary key, body text not null)"
Insert = Callable[[list[bytes]], Awaitable[list[bytes]]]
ANSWER = b'{"message":"ok"}'


class _Event(Struct):
    id: str


class _Envelope(Struct):
    event: _Event


def bare(insert: Insert) -> Bare:
    """Stores each event once, by its id."""
    batch: Batch[bytes, bytes] = Batch(insert)
    return Bare(lambda _, body: batch.ask(body))


def _rows(bodies: list[bytes]) -> list[tuple[str, str]]:
    return [(json.decode(body, type=_Envelope).event.id, body.decode()) for body in bodies]


def into_postgresql(database: Database) -> Insert:
    async def insert(bodies: list[bytes]) -> list[bytes]:
        async with database.transaction() as connection:
            await connection.executemany(
                "insert into bare_events values ($1, $2) on conflict do nothing", _rows(bodies)
            )
        return [ANSWER] * len(bodies)

    return insert


def into_sqlite(path: str) -> Insert:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("pragma journal_mode=wal")
    # Like the consumer: a response means that it is on disk.
    connection.execute("pragma synchronous=full")
    connection.execute(TABLE)

    def write(bodies: list[bytes]) -> None:
        connection.execute("begin immediate")
        connection.executemany("insert or ignore into bare_events values (?, ?)", _rows(bodies))
        connection.execute("commit")

    async def insert(bodies: list[bytes]) -> list[bytes]:
        await asyncio.to_thread(write, bodies)
        return [ANSWER] * len(bodies)

    return insert


async def _bare(fd: int, url: str, cert: str, key: str) -> None:
    settings = Settings(tls_cert=Path(cert), tls_key=Path(key))
    listening = socket.socket(fileno=fd)
    if url.startswith("sqlite:///"):
        await Listener(bare(into_sqlite(url.removeprefix("sqlite:///"))), listening, settings).serve()
        return
    async with Database(url, max_size=4) as database:
        async with database.acquire() as connection:
            await connection.execute(TABLE)
        await Listener(bare(into_postgresql(database)), listening, settings).serve()


async def _consumer(fd: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    logs.configure("warning", "json")
    await serve(ConsumerSettings.from_env(), socket.socket(fileno=fd), stop, lambda: None)


if __name__ == "__main__":
    fd, what, *words = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_consumer(int(fd)) if what == "consumer" else _bare(int(fd), *words))
