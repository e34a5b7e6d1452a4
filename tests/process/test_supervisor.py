"""The supervisor with real processes."""

import asyncio
import threading
from ipaddress import ip_network
from pathlib import Path

import pytest
from msgspec import json

from latchkey.database.pool import Database, connect
from latchkey.process.supervision.listeners import NotReadyError, bind
from latchkey.process.supervision.supervisor import Supervisor, plan
from latchkey.process.supervision.supervisor_channel import settings_from_wire, settings_to_wire
from latchkey.settings import Settings
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.projects import usecases as projects
from tests.cli.running import ask, serve
from tests.patience import PATIENCE

NOW = 1_800_000_000_000
WAITING = "select count(*) from pg_locks where not granted"


def test_every_socket_gets_a_process_that_answers_and_delivers_and_the_clock_one_of_its_own() -> None:
    sockets = bind("127.0.0.1", 0, 2)
    assert len({one.getsockname() for one in sockets}) == 1
    planned = [(child.name, child.roles) for child in plan(("api", "clock", "delivery"), sockets)]
    answering = "api", "delivery"
    assert planned == [("api-1", answering), ("api-2", answering), ("background", ("clock",))]
    apart = [*plan(("api",), sockets), *plan(("clock", "delivery"), [])]
    assert [(child.name, child.roles) for child in apart] == [
        ("api-1", ("api",)),
        ("api-2", ("api",)),
        ("background", ("clock", "delivery")),
    ]
    for one in sockets:
        one.close()


async def test_processes_that_crash_again_and_again_are_given_up_and_leave_nothing() -> None:
    supervisor = Supervisor(plan(("clock",), []))
    await supervisor.spawn()
    supervisor.begin(Settings(database_url="postgresql://127.0.0.1:1/nowhere", secret_key=b"k" * 32))
    with pytest.raises(NotReadyError, match="background crashed again and again"):
        await supervisor.wait_until_ready()
    await supervisor.stop()
    assert all(child.process is None or child.process.returncode is not None for child in supervisor.children)


async def test_a_request_under_way_is_answered_before_the_service_stops(database_url: str) -> None:
    async with Database(database_url) as database:
        project = await projects.create_project(database, "Shop", NOW)
        key = (await keys.create_secret_key(database, project.id, "server", NOW)).plaintext
    with serve(database_url, "--workers", "1", "--roles", "api") as running:
        port = (await asyncio.to_thread(running.wait_for_event, "ready"))["port"]
        blocker = await connect(database_url)
        answers: list[int] = []

        def read() -> None:
            answers.append(ask(f"http://127.0.0.1:{port}", "GET", "/v1/subscribers/alice", key=key).status)

        asking = threading.Thread(target=read)
        async with blocker.transaction():
            await blocker.execute("lock table aliases, customers in access exclusive mode")
            asking.start()
            async with asyncio.timeout(PATIENCE):
                # The request is under way once it waits for our lock.
                while not await blocker.fetchval(WAITING):  # noqa: ASYNC110 - the database has no event to wait for
                    await asyncio.sleep(0.02)
            running.process.terminate()
            await asyncio.to_thread(running.wait_for_event, "stopping")
            await asyncio.sleep(0.2)
            assert running.process.poll() is None
            assert answers == []
        await asyncio.to_thread(asking.join, PATIENCE)
        await blocker.close()
        assert answers == [201]
        assert await asyncio.to_thread(running.ended) == 0


FULL = Settings(
    database_url="postgresql://db/x",
    tls_cert=Path("/etc/cert.pem"),
    tls_key=Path("/etc/key.pem"),
    behind_proxy=True,
    roles=("api",),
    secret_key=bytes(range(32)),
    webhook_allow_networks=(ip_network("127.0.0.0/8"), ip_network("fc00::/7")),
    webhook_extra_ca=Path("/etc/authority.pem"),
    store_extra_ca=Path("/etc/stores.pem"),
    store_allow_hosts=("127.0.0.1:9443",),
    store_emulators=("proj_a/app_b=http://127.0.0.1:9001/control",),
    export_folder=Path("/var/lib/latchkey/exports"),
    export_allow_hosts=("minio.example.com:9000",),
    openid_extra_ca=Path("/etc/openid.pem"),
    smtp_extra_ca=Path("/etc/mail.pem"),
    mail_folder=Path("/var/lib/latchkey/mail"),
    operations_url="https://ops.example.com",
)


def test_settings_survive_the_way_to_a_child() -> None:
    for settings in (Settings(), FULL):
        received = settings_from_wire(json.decode(json.encode(settings_to_wire(settings))))
        assert received == settings
        for name in Settings.__struct_fields__:
            assert type(getattr(received, name)) is type(getattr(settings, name)), name
