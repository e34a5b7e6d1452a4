"""The log of requests for each API key, and when keys were last used."""

import asyncio
from typing import Any

import pytest

from latchkey.process.http_application import create_application
from latchkey.settings import Settings
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.request_log import storage
from latchkey.subjects.request_log import usecases as request_log
from latchkey.subjects.request_log.storage import LoggedRequest
from tests.cli.running import typed
from tests.http.client import APP, METRICS_KEY, NOW, Client, Shop, running

PROJECT = "proj_demo"
V1 = "/v1/subscribers/{app_user_id}"
MINUTE = 60_000


def log_of(shop: Shop) -> request_log.RequestLog:
    front: Any = shop.client.app
    log: request_log.RequestLog = front.requests
    # A busy machine could otherwise write by itself in the middle of a test.
    log.every = 1e6
    return log


async def written(shop: Shop) -> list[LoggedRequest]:
    """Oldest first."""
    await log_of(shop).flush()
    return (await request_log.entries(shop.database, PROJECT, limit=10_000))[::-1]


async def test_a_request_is_written_with_its_route_and_nothing_that_names_the_customer(shop: Shop) -> None:
    log_of(shop)
    shop.client.address = "203.0.113.9"
    headers = {"user-agent": "my-server/2 \x7f", "x-request-id": "mine"}
    reply = await shop.client.get("/v1/subscribers/margot", headers=headers)
    (one,) = await written(shop)
    assert (one.method, one.route, one.status, one.bytes) == ("GET", V1, 201, len(reply.body))
    assert (one.request_id, one.address, one.agent, one.left_out) == ("mine", "203.0.113.9", "my-server/2 ", 0)
    assert abs(one.at - NOW) < 600_000
    assert one.took_us > 0
    rows = str(await shop.database.pool.fetch("select * from request_log"))
    assert "margot" not in rows
    assert shop.secret not in rows


async def test_every_request_that_a_keys_rules_refuse_is_written(shop: Shop) -> None:
    """Whoever owns a stolen key sees that somebody tries it from elsewhere."""
    log_of(shop)
    bound = await keys.create_secret_key(shop.database, PROJECT, "bound", NOW, allowed_networks=["198.51.100.0/24"])
    shop.client.address = "203.0.113.9"
    for _ in range(3):
        assert (await shop.client.get("/v1/subscribers/ada", key=bound.plaintext)).status == 403
        assert (await shop.client.post("/v1/subscribers/ada/attributes", {}, key=bound.plaintext)).status == 403
    found = [(one.key_id, one.status, one.address) for one in await written(shop)]
    assert found == [(bound.key.id, 403, "203.0.113.9")] * 6


async def test_of_a_phone_only_its_network_is_kept(shop: Shop) -> None:
    log_of(shop)
    for address in ("203.0.113.9", "2001:db8:1:2::3"):
        shop.client.address = address
        await shop.client.get("/v1/subscribers/ada", key=APP)
    assert [one.address for one in await written(shop)] == ["203.0.113.0/24", "2001:db8:1::/48"]


async def test_in_a_burst_all_errors_and_some_successes_are_kept_and_the_rest_is_counted(shop: Shop) -> None:
    log = log_of(shop)
    await shop.note("ada", plan="x")
    for n in range(request_log.SECRET_KEPT + 25):
        assert (await shop.v1("ada")).status == 200
        if n % 5 == 0:
            assert (await shop.v2("nobody")).status == 404
    for _ in range(request_log.PUBLIC_KEPT + 3):
        await shop.client.get("/v1/subscribers/ada", key=APP)
    found = await written(shop)
    assert sum(one.status == 404 for one in found) == 7
    assert sum(one.status == 200 for one in found) == request_log.SECRET_KEPT + request_log.PUBLIC_KEPT
    assert sorted(one.left_out for one in found if one.left_out) == [3, 25]
    assert log.lost == 0
    # The next second begins anew.
    await shop.v1("ada")
    assert len(await written(shop)) == len(found) + 1


async def test_requests_beyond_what_a_process_writes_are_counted(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    log_of(shop)
    monkeypatch.setattr(request_log, "MOST", 4)
    for _ in range(10):
        await shop.v2("nobody")
    found = await written(shop)
    assert [one.status for one in found] == [404] * 4 + [0]
    assert found[-1].left_out == 6


async def test_a_refusal_of_the_rate_limit_is_in_the_log_and_an_unknown_key_is_only_counted(shop: Shop) -> None:
    log_of(shop)
    issued = await keys.create_secret_key(shop.database, PROJECT, "slow", NOW, rate_limit=1)
    statuses = [(await shop.client.get("/v1/subscribers/a", key=issued.plaintext)).status for _ in range(2)]
    assert statuses == [201, 429]
    assert (await shop.v1("ada", key="sk_unknown")).status == 401
    assert [one.status for one in await written(shop)] == [201, 429]
    metrics = (await shop.client.get("/metrics", key=METRICS_KEY)).body.decode()
    assert f'latchkey_requests_total{{process="api",route="{V1}",status="401"}} 1.0' in metrics


async def test_when_a_key_was_last_used_is_written_at_most_once_a_minute_and_when_the_process_ends(shop: Shop) -> None:
    log = log_of(shop)

    async def used() -> int | None:
        await log.flush()
        (key,) = await keys.list_keys(shop.database, PROJECT, kind="secret")
        return key.last_used_at

    assert await used() is None
    await shop.v1("ada")
    assert await used() == NOW
    shop.clock.now = NOW + MINUTE - 1
    await shop.v1("ada")
    assert await used() == NOW
    shop.clock.now = NOW + MINUTE
    await shop.v1("ada")
    assert await used() == NOW + MINUTE
    shop.clock.now = NOW + MINUTE + 5_000
    await shop.v1("ada")
    await log.close()
    assert await used() == NOW + MINUTE + 5_000
    reply = await shop.client.get(f"/v2/projects/{PROJECT}/api_keys")
    assert reply.json()["items"][0]["last_used_at"] == NOW + MINUTE + 5_000


async def test_the_command_line_lists_when_keys_were_last_used(shop: Shop) -> None:
    async with shop.database.acquire() as connection:
        (key,) = await keys.list_keys(shop.database, PROJECT, kind="secret")
        await storage.note_uses(connection, {key.id: NOW, "key_gone": NOW})
    assert await shop.database.pool.fetchval("select count(*) from key_uses") == 1
    told = await asyncio.to_thread(typed, "key", "list", COLUMNS="200", LATCHKEY_DATABASE_URL=shop.database.url)
    assert "last used" in told.stdout
    assert "2027-01-15" in told.stdout
    assert "never" in told.stdout


async def test_without_a_database_requests_are_lost_but_not_when_keys_were_used(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(shop)
    await shop.v1("ada")

    async def fail(*_: Any) -> None:
        raise OSError("the database is away")

    with monkeypatch.context() as broken:
        broken.setattr(storage, "note_uses", fail)
        await log.flush()
    assert log.lost == 1
    assert await written(shop) == []
    (key,) = await keys.list_keys(shop.database, PROJECT, kind="secret")
    assert key.last_used_at == NOW


async def test_the_log_can_be_turned_off_and_last_used_stays(shop: Shop) -> None:
    app: Any = create_application(shop.database, Settings(secret_key=bytes(32), request_log_kept_days=0), shop.clock)
    async with running(app):
        await Client(app, shop.secret).get("/v1/subscribers/ada")
    assert await request_log.entries(shop.database, PROJECT) == []
    (key,) = await keys.list_keys(shop.database, PROJECT, kind="secret")
    assert key.last_used_at == NOW


async def test_old_requests_and_those_beyond_the_newest_of_a_key_are_deleted(shop: Shop) -> None:
    def row(key: str, at: int) -> storage.Logged:
        return storage.Logged(PROJECT, key, at, "GET", V1, 200)

    async with shop.database.acquire() as connection:
        await storage.write(
            connection,
            [row("key_a", NOW + n) for n in range(30)]
            + [row("key_b", NOW + n) for n in range(3)]
            + [row("key_c", NOW - n - 1) for n in range(12)],
        )
    assert await storage.prune_request_log(shop.database, NOW, 10, at_once=4, keys_at_once=1) == 20 + 12
    left = await request_log.entries(shop.database, PROJECT, limit=100)
    assert sorted((one.key_id, one.at) for one in left) == [
        *(("key_a", NOW + n) for n in range(20, 30)),
        *(("key_b", NOW + n) for n in range(3)),
    ]


async def test_a_page_is_of_one_project_and_can_be_filtered(shop: Shop) -> None:
    mine, _ = await keys.list_keys(shop.database, PROJECT)
    rows = [
        storage.Logged(PROJECT, mine.id, NOW, "GET", V1, 200),
        storage.Logged(PROJECT, mine.id, NOW, "POST", "/v1/receipts", 422),
        storage.Logged(PROJECT, "key_x", NOW, "GET", V1, 503),
        storage.Logged("proj_other", "key_y", NOW, "GET", V1, 200),
        storage.Logged(PROJECT, mine.id, NOW, left_out=9),
    ]
    async with shop.database.acquire() as connection:
        await storage.write(connection, rows)

    async def statuses(project: str = PROJECT, **asked: Any) -> list[int]:
        return [one.status for one in await request_log.entries(shop.database, project, **asked)]

    assert await statuses() == [0, 503, 422, 200]
    assert await statuses(key_id=mine.id) == [0, 422, 200]
    assert await statuses("proj_other", key_id=mine.id) == []
    assert await statuses(status_class=5) == [503]
    assert await statuses(route="/v1/receipts") == [422]
    newest = await request_log.entries(shop.database, PROJECT, limit=2)
    assert await statuses(before=newest[-1].id) == [422, 200]
    assert await request_log.routes(shop.database, PROJECT, 99) == ["/v1/receipts", V1]
