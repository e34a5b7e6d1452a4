"""The text of /metrics: what is in it, that it parses, and what it costs."""

import asyncio
import os
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from latchkey.database.pool import Database
from latchkey.observability import port, storage
from latchkey.observability.peer_metrics import ProcessIdentity, joined, text_of
from latchkey.observability.watch import Watch
from latchkey.process.local_ca.authority import ensure_certificates
from latchkey.settings import Settings
from latchkey.subjects.webhooks.delivery.queue import results
from latchkey.subjects.webhooks.storage.lanes import AttemptResult
from tests.http.client import METRICS_KEY, NOW, Clock, Shop

SETTINGS = Settings(secret_key=bytes(32))


def parsed(text: bytes) -> dict[str, Any]:
    return {family.name: family for family in text_string_to_metric_families(text.decode())}


async def test_everything_that_is_shown_parses_and_no_family_comes_twice(shop: Shop) -> None:
    await shop.v1("ada")
    text = (await shop.client.get("/metrics", key=METRICS_KEY)).body
    families = parsed(text)
    heads = [line.split()[2] for line in text.decode().splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    assert {
        "latchkey_requests", "latchkey_request_seconds", "latchkey_batch_size", "latchkey_rate_limit_leases",
        "latchkey_pool_connections", "latchkey_pool_size", "latchkey_pool_waiting", "latchkey_build_info",
        "latchkey_database_up", "latchkey_webhooks", "latchkey_deliveries_waiting", "latchkey_oldest_delivery_seconds",
        "latchkey_delivery_lag_seconds", "latchkey_clock_lag_seconds", "latchkey_store_journal_lag_seconds",
        "latchkey_store_notifications",
        "latchkey_customer_lists_behind", "latchkey_customer_lists_lag_seconds",
        "process_resident_memory_bytes", "latchkey_delivery_attempts",
    } <= families.keys()  # fmt: skip
    most = shop.database.pool.get_max_size() + shop.database.hot.pool.get_max_size()
    assert families["latchkey_pool_size"].samples[0].value == most


def test_labels_are_escaped_and_families_of_two_processes_are_joined() -> None:
    def of(process: str) -> str:
        family = CounterMetricFamily("x", 'Has "quotes", a \\ and\na line break.', labels=("a",))
        family.add_metric(('"\\\n',), 2)
        return text_of([family, GaugeMetricFamily("y", "Plain.", value=1.5)], {"process": process})

    families = parsed(joined([of("one"), of("two")]))
    assert [(sample.labels, sample.value) for sample in families["x"].samples] == [
        ({"process": "one", "a": '"\\\n'}, 2),
        ({"process": "two", "a": '"\\\n'}, 2),
    ]
    assert len(families["y"].samples) == 2


async def test_lags_and_depths_are_measured(shop: Shop) -> None:
    await shop.database.pool.execute(
        "insert into webhooks (project_id, id, name, url, retry_seconds, in_flight_limit, secret_sealed, created_at, "
        "updated_at, failing_since) select id, 'wh_1', 'x', 'https://x.example', '{5}', 10, '', 0, 0, $1 from projects",
        NOW - 90_000,
    )
    key = await shop.database.pool.fetchval("select key from webhooks")
    await shop.database.pool.execute(
        "insert into lanes (project_id, customer_id, webhook_key, waiting, done, next_at, tried_at) "
        "select p.id, n, $1, 2, 0, $2, case when n = 1 then $2::bigint - 60000 end "
        "from projects p, generate_series(1, 3) n",
        key, NOW - 5_000,
    )  # fmt: skip
    found = await storage.measure(shop.database, NOW, 100)
    (queue,) = found.queues
    assert (queue.webhook_id, queue.lanes, queue.waiting) == ("wh_1", 3, 6)
    assert (NOW - queue.oldest_at, queue.due_at) == (65_000, NOW - 5_000)
    assert (found.webhooks, found.failing) == ({"failing": 1}, {"wh_1": NOW - 90_000})
    # After failures one is tried, and the others wait for its answer.
    await shop.database.pool.execute("update webhooks set open_until = $1", NOW - 1)
    assert (await storage.measure(shop.database, NOW, 100)).queues[0].due_at == NOW - 5_000
    await shop.database.pool.execute("update lanes set lease_until = $1 where customer_id = 1", NOW + 30_000)
    assert (await storage.measure(shop.database, NOW, 100)).queues[0].due_at is None
    # As many as may be are under way to a slow receiver.
    await shop.database.pool.execute("update webhooks set in_flight_limit = 1, open_until = null")
    found = await storage.measure(shop.database, NOW, 100)
    assert (found.queues[0].lanes, found.queues[0].due_at) == (3, None)
    # Paused: nothing could have been sent.
    await shop.database.pool.execute("update webhooks set paused_at = $1", NOW)
    found = await storage.measure(shop.database, NOW, 2)
    assert (found.queues[0].lanes, found.queues[0].due_at, found.webhooks) == (2, None, {"paused": 1})


def test_from_some_number_of_webhooks_on_the_others_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MOST_WEBHOOKS", len(results._histograms.seconds) + 1)
    attempt = AttemptResult(at=NOW, took_ms=5, status=200, error=None, request_headers=b"{}")
    before = text_of(REGISTRY.collect())
    for id in ("wh_first", "wh_second", "wh_third", "wh_first"):
        results._count(id, [attempt])
    told = parsed(text_of(REGISTRY.collect()).encode())["latchkey_delivery_attempts"].samples
    counted = {one.labels["webhook"]: one.value for one in told if one.labels["outcome"] == "delivered"}
    assert "wh_first" not in before
    assert (counted["wh_first"], counted["other"], "wh_second" in counted) == (2, 2, False)


async def test_without_a_database_the_rest_is_still_shown(database_url: str) -> None:
    watch = Watch(Database(database_url), SETTINGS, Clock())
    families = parsed(await watch.text())
    assert families["latchkey_database_up"].samples[0].value == 0
    assert "latchkey_build_info" in families
    assert "latchkey_clock_lag_seconds" not in families


def test_the_end_of_the_certificate_is_that_of_the_one_read_at_the_start(database: Database, tmp_path: Path) -> None:
    made = ensure_certificates(tmp_path, [], NOW)
    watch = Watch(database, msgspec.structs.replace(SETTINGS, tls_cert=made.cert), Clock())
    before = text_of(watch.families())
    # As after a renewal without a restart: another file, which this process does not serve.
    made.cert.unlink()
    assert "latchkey_certificate_expires_timestamp_seconds" in before
    later = parsed(text_of(watch.families()).encode())
    name = "latchkey_certificate_expires_timestamp_seconds"
    assert later[name].samples == parsed(before.encode())[name].samples


async def test_processes_of_one_machine_answer_for_each_other_and_one_that_is_gone_is_shown_as_down(
    database: Database,
) -> None:
    family = f"test{os.getpid()}"
    names = ("api-1", "api-2", "background")
    watches = [Watch(database, SETTINGS, Clock(), ProcessIdentity(name, family, names)) for name in names[:2]]
    for one in watches:
        await one.siblings.open()
    try:
        for one in watches:
            up = parsed(await one.text())["latchkey_process_up"].samples
            assert {sample.labels["process"]: sample.value for sample in up} == {
                "api-1": 1,
                "api-2": 1,
                "background": 0,
            }
    finally:
        for one in watches:
            await one.siblings.close()


async def test_a_process_of_another_user_is_not_answered(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    family = f"other{os.getpid()}"
    watches = [Watch(database, SETTINGS, Clock(), ProcessIdentity(name, family, ("a", "b"))) for name in ("a", "b")]
    for one in watches:
        await one.siblings.open()
    try:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert await watches[0].siblings.ask() == {"b": None}
        monkeypatch.undo()
        assert await watches[0].siblings.ask() != {"b": None}
    finally:
        for one in watches:
            await one.siblings.close()


def fetched(number: int, path: str = "/metrics", **headers: str) -> tuple[int, str]:
    asked = urllib.request.Request(f"http://127.0.0.1:{number}{path}", headers=headers)
    try:
        with urllib.request.urlopen(asked) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def test_the_port_of_its_own_asks_for_the_key_only_if_one_is_set(database: Database) -> None:
    for key in ("", METRICS_KEY):
        watch = Watch(database, Settings(secret_key=bytes(32), metrics_key=key), Clock())
        with socket.create_server(("127.0.0.1", 0)) as listening:
            end = port.serve(watch, listening)
            number = listening.getsockname()[1]
            try:
                right = {"Authorization": f"Bearer {METRICS_KEY}"}
                status, text = await asyncio.to_thread(fetched, number, **right)
                assert status == 200
                assert "latchkey_build_info" in parsed(text.encode())
                for headers in ({}, {"Authorization": "Bearer wrong"}):
                    status, text = await asyncio.to_thread(fetched, number, **headers)
                    assert (status, "latchkey_build_info" in text) == ((401, False) if key else (200, True))
                assert (await asyncio.to_thread(fetched, number, "/v1/subscribers/ada", **right))[0] == 404
            finally:
                end()
