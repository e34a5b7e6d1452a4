"""A rolling upgrade: processes of the last release and of this version on one database, under load.

The last release's own code runs, on the schema that this version's migrations make. Decision 63 says what must hold.
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec import json
from pyreqwest.client import Client, ClientBuilder

from latchkey.delivery.receiver import Receiver, listening, tls
from latchkey.now import real_now
from latchkey.storage.database import Database, connect
from latchkey.storage.migrate import migrate, pending_after
from latchkey.usecases.charts.roller import catch_up
from tests.cli.running import Running, get
from tests.delivery import certificates
from tests.delivery.processes import SECRET_KEY
from tests.patience import until
from tests.upgrades import old_code
from tests.upgrades.world import WITH_ERASURE, Answers, Mixed, Received, differences

pytestmark = pytest.mark.processes

USERS = 24
CLOCKS = 3
# Users without a test clock: what falls due for them, a clock process of either release does.
SHORT_LIVED = 6
# Requests of each phase: enough for the users to meet each other.
SOME = 60
BEFORE, MEANWHILE = "/before", "/meanwhile"


async def test_the_last_release_and_this_version_work_side_by_side_on_one_database(
    empty_database_url: str, tmp_path: Path
) -> None:
    sources = old_code.take(tmp_path / "old")
    certs = certificates.make(tmp_path / "certificates")
    received = Received()
    settings = {
        "LATCHKEY_DATABASE_URL": empty_database_url,
        "LATCHKEY_SECRET_KEY": base64.b64encode(SECRET_KEY).decode(),
        "LATCHKEY_TLS_CERT": str(certs.good[0]),
        "LATCHKEY_TLS_KEY": str(certs.good[1]),
        "LATCHKEY_PORT": "0",
        "LATCHKEY_WORKERS": "1",
        "LATCHKEY_WEBHOOK_EXTRA_CA": str(certs.authority),
        "LATCHKEY_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8,::1/128",
        "LATCHKEY_LOG_FORMAT": "json",
    }
    async with AsyncExitStack() as stack:
        receiver = Receiver(received.told)
        port = await stack.enter_async_context(listening(receiver, tls(*certs.good)))
        made = await asyncio.to_thread(old_code.first_data, sources, empty_database_url)
        old = stack.enter_context(old_code.OldServe(sources, **settings))
        old_address = await asyncio.to_thread(_address, old)
        http = await stack.enter_async_context(_client(certs.authority, made["secret_key"]))

        # The old release alone, and its database migrated under load.
        first = await _webhook(http, old_address, made["project"], f"https://localhost:{port}{BEFORE}")
        lives = Mixed(http, made["project"], made["public_key"], users=USERS, clocks=CLOCKS)
        lives.addresses = (old_address,)
        going = True
        living = asyncio.create_task(lives.go_on_while(lambda: going))
        await _sent(lives, living, old_address, SOME)
        await _migrate(empty_database_url, after=False)

        # Both. While the new one starts, the old one works with the new schema.
        new = stack.enter_context(Running("serve", **settings))
        new_address = await asyncio.to_thread(_address, new)
        second = await _webhook(http, new_address, made["project"], f"https://localhost:{port}{MEANWHILE}")
        answers = {which: Answers(http, address, made["project"]) for which, address in _both(old_address, new_address)}
        known = {one["id"] for one in await answers["old"].whole(f"/v2/projects/{made['project']}/events")}
        lives.addresses = (old_address, new_address)
        lives.weights = WITH_ERASURE
        short_lived = await _grant_for_a_moment(http, lives.addresses, made["project"])
        await _sent(lives, living, new_address, 2 * SOME)
        going = False
        await living
        ids = [*lives.ids, *short_lived]
        assert {"purchase", "log_in", "erase"} <= lives.did.keys(), lives.did

        database = await stack.enter_async_context(Database(empty_database_url, max_size=2))
        await _expired(answers["new"], made["project"], short_lived)
        told = await _all_delivered(database, received, BEFORE, set())
        assert len(told) > 2 * SOME
        await _all_delivered(database, received, MEANWHILE, known)
        said = await _said_by_both(answers, ids)
        assert differences(said["old"], said["new"]) == {}
        for path, secret in ((BEFORE, first), (MEANWHILE, second)):
            received.check_signatures(path, secret["signing_secret"])
            assert received.is_in_order(path, told), f"deliveries to {path} were not in order"
        for name, running in (("old", old), ("new", new)):
            assert get(_address(running), str(certs.authority), "/readyz")[0] == 200, f"the {name} one is not ready"

        # The new release alone.
        assert await asyncio.to_thread(old.terminate) == 0
        await _migrate(empty_database_url, after=True)
        assert differences(said["new"], await answers["new"].all(ids)) == {}
        lives.addresses = (new_address,)
        before = lives.sent[new_address]
        living = asyncio.create_task(lives.go_on_while(lambda: lives.sent[new_address] < before + SOME))
        await living
        for path, known_before in ((BEFORE, set[str]()), (MEANWHILE, known)):
            told = await _all_delivered(database, received, path, known_before)
            assert received.is_in_order(path, told), f"deliveries to {path} were not in order"
        assert await catch_up(database, made["project"], real_now())
        assert await asyncio.to_thread(new.terminate) == 0
        for name, running in (("old", old), ("new", new)):
            assert not _errors(running), f"errors in the log of the {name} release"


def _address(running: Running) -> str:
    return f"https://localhost:{running.wait_for_event('ready')['port']}"


def _both(old: str, new: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("old", old), ("new", new)


def _client(authority: Path, key: str) -> Client:
    http = ClientBuilder().add_root_certificate_pem(authority.read_bytes()).http1_only()
    return http.default_headers({"authorization": f"Bearer {key}", "content-type": "application/json"}).build()


async def _post(http: Client, url: str, body: Any) -> Any:
    response = await http.post(url).body_bytes(json.encode(body)).build().send()
    answer = json.decode(bytes(await response.bytes()))
    assert response.status == 201, (url, answer)
    return answer


async def _webhook(http: Client, address: str, project: str, url: str) -> Any:
    return await _post(http, f"{address}/v2/projects/{project}/integrations/webhooks", {"name": "receiver", "url": url})


async def _grant_for_a_moment(http: Client, addresses: tuple[str, ...], project: str) -> list[str]:
    """Customers whose access ends in three seconds, by the clock."""
    users = [f"short{number}" for number in range(SHORT_LIVED)]
    for number, user in enumerate(users):
        v2 = f"{addresses[number % len(addresses)]}/v2/projects/{project}"
        await _post(http, f"{v2}/customers", {"id": user})
        grant = {"entitlement_id": "pro", "expires_at": real_now() + 3000}
        await _post(http, f"{v2}/customers/{user}/actions/grant_entitlement", grant)
    return users


async def _expired(answers: Answers, project: str, users: list[str]) -> None:
    async def expired() -> bool:
        lists = [await answers.whole(f"/v2/projects/{project}/customers/{user}/events") for user in users]
        return all([one["type"] for one in told][-1] == "EXPIRATION" for told in lists)

    await until(expired, "no clock process ended the access of customers without a test clock", every=0.2)


async def _sent(lives: Mixed, living: asyncio.Task[None], address: str, requests: int) -> None:
    async def enough() -> bool:
        if living.done():
            await living
        return lives.sent[address] >= requests

    await until(enough, lambda: f"{lives.sent} requests were answered")


async def _migrate(url: str, *, after: bool) -> None:
    connection = await connect(url)
    await migrate(connection, after=after)
    assert not after or await pending_after(connection) == []
    await connection.close()


async def _all_delivered(
    database: Database, received: Received, path: str, without: set[str]
) -> dict[str, tuple[int, int]]:
    """Wait until every event has arrived, but for these; gives the customer's record and the sequence of all events."""
    rows = await database.pool.fetch("select id, customer_id, sequence from events")
    places = {row["id"]: (row["customer_id"], row["sequence"]) for row in rows}

    async def arrived() -> bool:
        return places.keys() - without <= received.ids(path)

    await until(arrived, lambda: f"never sent to {path}: {places.keys() - without - received.ids(path)}")
    assert received.ids(path) <= places.keys(), "events that nobody committed"
    return places


def _errors(running: Running) -> list[str]:
    lines = [line for line in running.lines if '"level":"error"' in line or '"level":"critical"' in line]
    return [*lines, *(line for line in running.lines if "Traceback" in line)]


async def _said_by_both(answers: dict[str, Answers], ids: list[str]) -> dict[str, dict[str, Any]]:
    """What both releases answer. When somebody was last seen is written a second late, so it may change in between."""

    async def read() -> dict[str, dict[str, Any]] | None:
        said = {which: await one.all(ids) for which, one in answers.items()}
        left = differences(said["old"], said["new"])
        return None if left and all(name.endswith(" last_seen_at") for name in left) else said

    found = await until(read, "both releases say the same of when somebody was last seen")
    assert found is not None
    return found
