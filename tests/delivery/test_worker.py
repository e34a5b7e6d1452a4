"""A worker inside the test process, stopped at moments that are hard to hit in a real process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from latchkey.delivery.queue.worker import Worker
from latchkey.delivery.sealing import Sealer
from latchkey.delivery.sending.sender import Sender
from latchkey.storage.deliveries import lanes
from tests.delivery.conftest import Yard, now_ms
from tests.delivery.processes import SECRET_KEY
from tests.delivery.test_sender import LOOPBACK
from tests.patience import PATIENCE

LONG = PATIENCE


async def test_a_worker_that_is_stopped_in_the_middle_of_a_claim_leaves_no_lease(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = yard.receiver()
    await yard.hook(receiver.url())
    await yard.buy("ann")
    claimed, answer = asyncio.Event(), asyncio.Event()
    real_claim = lanes.claim

    async def slow_claim(*args: Any) -> Any:
        """The database has committed the claim; its answer is still on the way."""
        found = await real_claim(*args)
        claimed.set()
        await answer.wait()
        return found

    monkeypatch.setattr(lanes, "claim", slow_claim)
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
