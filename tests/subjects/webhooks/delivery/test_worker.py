"""A worker stopped in the middle of a claim, its metrics, and operational events for the operator's own URL."""

import asyncio
import socket
import urllib.request
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import json
from standardwebhooks import Webhook as Standard

from latchkey.database.errors import CollisionError
from latchkey.database.sealing import Sealer
from latchkey.subjects.webhooks.delivery.queue.worker import Worker
from latchkey.subjects.webhooks.delivery.role import _every, operations_secret
from latchkey.subjects.webhooks.delivery.sending.request import Letterhead
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


async def attempted(yard: Yard, replies: Mapping[str, bytes]) -> dict[str, tuple[int | None, str | None]]:
    """A worker delivers an event to a webhook for each of these replies: the status and error of each one's attempt."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        writer.write(b"HTTP/1.1 " + replies[path] + b"\r\nconnection: close\r\n\r\n")
        writer.close()

    sender = Sender(now_ms, allowed=LOOPBACK, extra_ca=yard.certs.authority)
    worker = Worker(yard.database, sender, Sealer(SECRET_KEY), now=now_ms, chance=lambda: 0.5)
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls(*yard.certs.good)) as server:
        address = f"https://localhost:{server.sockets[0].getsockname()[1]}"
        paths = {(await yard.hook(address + path, retry_seconds=(3600,))).key: path for path in replies}
        await yard.buy("ann")
        stop = asyncio.Event()
        running = asyncio.create_task(worker.run(stop, 1.0))
        first = "select webhook_key, status, error from attempts where number = 1 order by sequence desc"

        async def done() -> bool:
            return running.done() or len(await yard.database.pool.fetch(first)) == len(replies)

        await until(done)
        stop.set()
        await running
    await sender.close()
    return {paths[key]: (status, error) for key, status, error in await yard.database.pool.fetch(first)}


REDIRECTED = "redirect (307) to nowhere: redirects are not followed"


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"200 OK\r\nx-name: \xff\r\ncontent-length: 0", None),
        (b"200 OK\r\ncontent-length: " + b"0" * 5_000, None),
        (b"307 x\r\nlocation: /\xff\r\nretry-after: \xff\r\ncontent-length: 0", REDIRECTED),
        (b"503 x\r\nretry-after: 1 Jan 99999999999 10:1\r\ncontent-length: 0", "answered 503 instead of 200"),
    ],
    ids=["not text", "long length", "redirect that is not text", "far date"],
)
async def test_no_header_of_a_reply_ends_the_worker(yard: Yard, reply: bytes, error: str | None) -> None:
    assert await attempted(yard, {"/": reply}) == {"/": (int(reply[:3]), error)}


async def test_a_reply_that_cannot_be_read_counts_by_its_status(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Letterhead, "received", lambda *_: 1 // 0)
    replies = {"/good": b"200 OK\r\ncontent-length: 0", "/bad": b"503 x\r\ncontent-length: 0"}
    assert await attempted(yard, replies) == {"/good": (200, None), "/bad": (503, "answered 503 instead of 200")}


async def test_a_request_that_cannot_be_made_is_an_attempt_that_failed(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Letterhead, "headers", lambda *_, **__: 1 // 0)
    assert await attempted(yard, {"/": b"200 OK"}) == {"/": (None, "failed unexpectedly in Latchkey; its log says why")}


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


async def test_periodic_work_goes_on_after_a_failure_and_ends_when_cancelled() -> None:
    turns: list[int] = []

    async def fail_at_first() -> None:
        turns.append(1)
        if len(turns) == 1:
            raise CollisionError("at first")

    working = asyncio.create_task(_every(0, fail_at_first))
    await until(lambda: working.done() or len(turns) > 2)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working


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
