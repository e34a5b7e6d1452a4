"""PostgreSQL is restarted under load: the other processes keep running, and every committed event arrives."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from latchkey.delivery.sealing import Sealer
from latchkey.delivery.webhook import Setup, Webhooks
from latchkey.storage.database import Database, connect
from latchkey.storage.embedded.server import EmbeddedServer
from latchkey.storage.migrate import migrate
from latchkey.usecases.access.projects import create_project
from latchkey.usecases.sandbox.demo import add_catalog
from tests.databases import drained
from tests.delivery import certificates
from tests.delivery.processes import SECRET_KEY, Receiver, Worker, Writer, in_order
from tests.patience import PATIENCE

PATHS = ("/", "/slow/20")


async def test_a_database_restarted_under_load_loses_nothing(
    short_folder: Path, certs: certificates.Certificates
) -> None:
    folder = short_folder / "restart"
    folder.mkdir()
    server = EmbeddedServer(folder / "server")
    await asyncio.to_thread(server.start)
    try:
        connection = await connect(server.url())
        await migrate(connection)
        await connection.close()
        with Receiver(folder, certs.good) as receiver:
            async with Database(server.url()) as database:
                await create_project(database, "Shop", 0, project_id="proj_shop")
                await add_catalog(database, "proj_shop", 0)
                for path in PATHS:
                    setup = Setup(name=path, url=receiver.url(path), retry_seconds=(1,) * 30)
                    await Webhooks(database, Sealer(SECRET_KEY)).create("proj_shop", setup, 0)
            with Worker(folder, server.url(), certs.authority, LATCHKEY_WEBHOOK_TIMEOUT_MS="5000") as worker:
                with Writer(folder, server.url(), 100, seed=5) as writer:
                    before = await _until_arrived(receiver, 30)
                    await asyncio.to_thread(server.stop)
                    await asyncio.to_thread(server.start)
                    # The same worker and writer reconnect by themselves.
                    await _until_arrived(receiver, before + 60)
                    assert writer.stop() == 0
                async with Database(server.url()) as database:
                    await drained(database)
                    committed = {row["id"] for row in await database.pool.fetch("select id from events")}
                assert worker.stop() == 0
            for path in PATHS:
                arrivals = receiver.arrivals(path)
                assert {one.event_id for one in arrivals if one.taken} == committed
                assert in_order(arrivals)
    finally:
        await asyncio.to_thread(server.stop)


async def _until_arrived(receiver: Receiver, count: int) -> int:
    ends = time.monotonic() + PATIENCE
    while (arrived := len(receiver.arrivals("/"))) < count:
        assert time.monotonic() < ends, f"{arrived} of {count} arrived"
        await asyncio.sleep(0.05)
    return arrived
