"""/healthz, /readyz, /metrics, /openapi.json and /docs."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from latchkey.database import migrate
from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.database.migrate import Migration, migrations
from latchkey.database.pool import Database
from latchkey.http import health
from latchkey.process.http_application import create_application
from latchkey.settings import Settings
from tests.http.client import METRICS_KEY, Client, Clock, Shop
from tests.patience import until


async def test_a_living_process_is_healthy_and_ready_without_a_key(shop: Shop) -> None:
    for path in ("/healthz", "/readyz"):
        reply = await shop.client.get(path, key=None)
        assert (reply.status, reply.json()) == (200, {"status": "ok"})


async def test_without_a_database_it_is_alive_but_not_ready_and_says_no_more_than_that(database_url: str) -> None:
    database = Database(database_url)
    client = Client(create_application(database, Settings(secret_key=bytes(32)), Clock()))
    assert (await client.get("/healthz")).status == 200
    reply = await client.get("/readyz")
    assert reply.status == 503
    assert reply.json() == {"status": "not_ready", "reason": "The database does not answer."}


async def test_with_an_older_schema_it_is_not_ready(shop: Shop) -> None:
    await shop.database.pool.execute("delete from schema_migrations")
    reply = await shop.client.get("/readyz")
    assert (reply.status, reply.json()["status"]) == (503, "not_ready")
    assert "schema" in reply.json()["reason"]


async def test_a_process_of_the_release_before_stays_ready_until_the_upgrade_is_finished(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, number = migrations(), migrations()[-1].version + 1
    newer = (*older, Migration(number, "more", "select 1"), Migration(number, "more", "select 1", after=True))

    async def status(known: tuple[Migration, ...]) -> int:
        monkeypatch.setattr(migrate, "migrations", lambda: known)
        return (await shop.client.get("/readyz")).status

    assert await status(newer) == 503
    async with shop.database.acquire() as connection:
        await migrate.migrate(connection)
        assert (await status(older), await status(newer)) == (200, 200)
        await migrate.migrate(connection, after=True)
        assert (await status(older), await status(newer)) == (503, 200)


async def test_a_database_that_takes_no_changes_is_not_ready(database_url: str, postgres: EmbeddedServer) -> None:
    name = database_url.partition("?")[0].rpartition("/")[2]
    administration = await asyncpg.connect(postgres.url("postgres"))
    await administration.execute(f"alter database {name} set default_transaction_read_only = on")
    async with Database(database_url) as database:
        client = Client(create_application(database, Settings(secret_key=bytes(32)), Clock()))
        reply = await client.get("/readyz")
        assert reply.status == 503
        assert reply.json()["reason"] == "The database takes no changes: its disk is full, or it is read-only."
    await administration.execute(f"alter database {name} reset default_transaction_read_only")
    await administration.close()


async def test_without_its_synchronous_standby_it_is_not_ready_and_says_why(
    database_url: str, administration: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = database_url.partition("?")[0].rpartition("/")[2]
    # Only here: the tests' server confirms everything else at once.
    await administration.execute(f"alter database {name} set synchronous_commit = on")
    async with Database(database_url) as database:
        client = Client(create_application(database, Settings(secret_key=bytes(32)), Clock()))
        assert (await client.get("/readyz")).status == 200
        await administration.execute("alter system set synchronous_standby_names = 'nobody'")
        await administration.execute("select pg_reload_conf()")
        try:
            monkeypatch.setattr(health, "_PATIENCE_SECONDS", 1.0)

            async def told() -> bool:
                reply = await client.get("/readyz")
                return reply.status == 503 and "synchronous standby" in reply.json()["reason"]

            await until(told)
        finally:
            await administration.execute("alter system reset synchronous_standby_names")
            await administration.execute("select pg_reload_conf()")
        monkeypatch.undo()

        async def ready() -> bool:
            return (await client.get("/readyz")).status == 200

        await until(ready)


async def test_the_metrics_count_requests_by_route_and_status_and_the_sizes_of_batches(shop: Shop) -> None:
    await asyncio.gather(*(shop.v1(f"user{n}") for n in range(6)), shop.v2("nobody"), shop.v1("x", key="sk_no"))
    text = (await shop.client.get("/metrics", key=METRICS_KEY)).body.decode()
    route = 'process="api",route="/v1/subscribers/{app_user_id}"'
    assert f'latchkey_requests_total{{{route},status="201"}} 6.0' in text
    assert f'latchkey_requests_total{{{route},status="401"}} 1.0' in text
    assert 'latchkey_batch_size_count{kind="read",process="api"} 1.0' in text
    assert 'latchkey_batch_size_sum{kind="read",process="api"} 8.0' in text
    assert f"latchkey_request_seconds_count{{{route}}} 7.0" in text


async def test_the_metrics_are_for_their_own_key_only(shop: Shop) -> None:
    for key in (None, shop.secret, METRICS_KEY[:-1], METRICS_KEY + "x"):
        reply = await shop.client.get("/metrics", key=key)
        assert (reply.status, b"latchkey_" in reply.body) == (401, False)
    assert (await shop.client.get("/metrics", key=METRICS_KEY)).status == 200


async def test_without_a_key_that_is_set_the_apis_port_has_no_metrics(shop: Shop) -> None:
    client = Client(create_application(shop.database, Settings(secret_key=bytes(32)), shop.clock))
    for key in (None, "", shop.secret):
        assert (await client.get("/metrics", key=key)).status == 404


@pytest.fixture
async def document(shop: Shop) -> Any:
    reply = await shop.client.get("/openapi.json", key=None)
    assert reply.status == 200
    return reply.json()


# The iOS SDK sends no key here.
OPEN = ("/v1/health", "/health_report_availability")


async def test_every_operation_of_the_apis_needs_a_key_and_tells_what_can_go_wrong(document: Any) -> None:
    assert document["components"]["securitySchemes"]["ApiKey"]["scheme"] == "bearer"
    for path, item in document["paths"].items():
        if not path.startswith(("/v1/", "/v2/", "/rcbilling/")) or path.endswith(OPEN):
            continue
        for method, operation in item.items():
            assert operation.get("security") == [{"ApiKey": []}], (method, path)
            assert {"400", "401", "403", "429"} <= operation["responses"].keys(), (method, path)
