"""A worker stopped in the middle of a claim, its metrics, and operational events for the operator's own URL."""

import asyncio
import socket
import urllib.request
from typing import Any

import pytest
from msgspec import json
from standardwebhooks import Webhook as Standard

from latchkey.database.sealing import Sealer
from latchkey.subjects.webhooks.delivery.queue.worker import Worker
from latchkey.subjects.webhooks.delivery.role import operations_secret
from latchkey.subjects.webhooks.delivery.sending.sender import Sender
from latchkey.subjects.webhooks.delivery.webhook_health import operations_webhook, tell
from latchkey.subjects.webhooks.receiver import ReceivedWebhook, Receiver, listening, tls
from latchkey.subjects.webhooks.storage import lanes
from tests.patience import PATIENCE, until
from tests.subjects.webhooks.delivery.conftest import PROJECT, Yard, now_ms
from tests.subjects.webhooks.delivery.processes import SECRET_KEY
from tests.subjects.webhooks.delivery.test_order import Line
from tests.subjects.webhooks.delivery.test_sender import LOOPBACK

LONG = PATIENCE


async def test_a_worker_that_is_stopped_in_the_middle_of_a_claim_leaves_no_lease(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = yard.receiver()
    await yard.hook(receiver.url())
    await yard.buy("ann")
    claimed, answer = asyncio.Event(), asyncio.Event()
    real_claim = lanes.claim_lane

    async def slow_claim(*args: Any) -> Any:
        """The database has committed the claim; its answer is still on the way."""
        found = await real_claim(*args)
        claimed.set()
        await answer.wait()
        return found

    monkeypatch.setattr(lanes, "claim_lane", slow_claim)
    sender = Sender(now_ms, allowed=LOOPBACK, extra_ca=yard.certs.authority)
    worker = Worker(yard.database, sender, Sealer(SECRET_KEY), now=now_ms, chance=lambda: 0.5)
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop, LONG))
    async with asyncio.timeout(LONG):
        await claimed.wait()
        stop.set()
        # The worker notices the stop before the answer comes.
        for _ in range(10):
            await asyncio.sleep(0)
        answer.set()
        await running
    await sender.close()
    assert await yard.leased() == 0
    assert await yard.count("delivered") == 1


async def test_an_operator_is_told_at_a_url_of_their_own_and_again_until_it_was_heard(yard: Yard) -> None:
    arrivals: list[ReceivedWebhook] = []
    line = Line(yard, await yard.hook("https://receiver.example/"))
    for number in range(12):
        await yard.buy(f"user{number}")
    for later in (0, 61_000):
        line.now += later
        await line.record(await line.claim(10), 500)

    receiver = Receiver(lambda arrival, _: arrivals.append(arrival))
    sender = Sender(lambda: line.now, timeout_ms=60_000, allowed=LOOPBACK, extra_ca=yard.certs.authority)
    async with listening(receiver, tls(*yard.certs.good)) as port:
        to = operations_webhook(f"https://localhost:{port}/flaky/1", operations_secret(SECRET_KEY))
        assert await tell(yard.database, sender, to, line.now, 2000, lambda: 0.5) == 1
        assert await tell(yard.database, sender, to, line.now, 2000, lambda: 0.5) == 0
        assert await tell(yard.database, sender, to, line.now + 60_000, 2000, lambda: 0.5) == 1
        assert await tell(yard.database, sender, to, line.now + 10**9, 2000, lambda: 0.5) == 0
        await sender.close()
    first, second = arrivals
    assert first.body == second.body
    told = json.decode(second.body)
    assert (told["type"], told["project_id"], told["webhook_id"]) == ("webhook.failing", PROJECT, line.webhook.id)
    Standard(operations_secret(SECRET_KEY)).verify(second.body, second.headers)


async def test_a_worker_shows_what_waits_what_was_tried_and_how_long_it_took(yard: Yard) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    receiver = yard.receiver()
    good = await yard.hook(receiver.url())
    bad = await yard.hook(receiver.url("/status/500"), retry_seconds=(3600,))
    told = await yard.buy("ann", 3)
    yard.worker(LATCHKEY_METRICS_PORT=str(port))

    def shown() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            return str(page.read().decode())

    await until(lambda: len(receiver.arrivals("/")) == len(told))
    expected = [
        f'latchkey_delivery_attempts_total{{outcome="delivered",process="delivery",webhook="{good.id}"}} {len(told)}.0',
        f'latchkey_delivery_attempts_total{{outcome="failed",process="delivery",webhook="{bad.id}"}} 1.0',
        f'latchkey_delivery_seconds_count{{process="delivery",webhook="{good.id}"}} {len(told)}.0',
        'latchkey_batch_size_count{kind="claim",process="delivery"}',
        f'latchkey_deliveries_waiting{{webhook="{bad.id}"}}',
        f'latchkey_oldest_delivery_seconds{{webhook="{bad.id}"}}',
    ]
    await until(lambda: all(line in shown() for line in expected))
