"""When outcomes are recorded: a lone one at once, several together at a steady rate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest

from latchkey.delivery.queue import recording as queue_recording
from latchkey.delivery.queue.agenda import Agenda
from latchkey.delivery.queue.capacity import Capacity
from latchkey.delivery.queue.inbox import Answered, Inbox
from latchkey.delivery.queue.recording import Recorder
from latchkey.delivery.sending.reply import Answer
from latchkey.storage.deliveries import recording
from latchkey.storage.deliveries.lanes import Claim
from latchkey.storage.deliveries.recording import Outcome, Recorded
from tests.patience import PATIENCE, until

ANSWER = Answer(at=1, took_ms=2, status=200, error=None, request_headers=b"{}")
KEY = 7


def answered(sequence: int, *, waiting: int = 1) -> Answered:
    claim = Claim(
        lease_until=1, project_id="p", customer_id=1, webhook_key=KEY, aside=0, webhook_version=1, waiting=waiting,
        done=0, tries=0, tried_at=None, sequence=sequence, event_id="ev", attempts=0, event=b"{}", token=1,
        dialect=None, part=0,
    )  # fmt: skip
    return Answered(claim, cast(Any, None), ANSWER)


class Fixture:
    def __init__(self) -> None:
        self.inbox = Inbox()
        self.capacity = Capacity(100, lambda _: 1)
        self.batches: list[list[int]] = []

    async def record(self, _: object, outcomes: Sequence[Outcome], now: int) -> tuple[list[Recorded], list[Outcome]]:
        self.batches.append([one.claim.sequence for one in outcomes])
        return [Recorded(one, more=False, troubled=False) for one in outcomes], []

    async def until_recorded(self, *batches: list[int]) -> None:
        await until(lambda: self.batches == list(batches))


@asynccontextmanager
async def recorder(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fixture]:
    """One whose pause between two batches never ends by itself."""
    fixture = Fixture()
    monkeypatch.setattr(queue_recording, "APART", 10 * PATIENCE)
    monkeypatch.setattr(recording, "record", fixture.record)
    nothing = cast(Any, {})
    made = Recorder(
        nothing, Agenda(), fixture.capacity, nothing, nothing, fixture.inbox, now=lambda: 1, chance=lambda: 0.5
    )
    running = asyncio.create_task(made.run())
    try:
        yield fixture
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_a_lone_outcome_is_recorded_at_once_and_those_soon_after_it_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with recorder(monkeypatch) as fixture:
        fixture.inbox.put(answered(1))
        await fixture.until_recorded([1])
        for sequence in (2, 3):
            fixture.inbox.put(answered(sequence))
            for _ in range(5):
                await asyncio.sleep(0)
        assert fixture.batches == [[1]]
        # The next delivery of this customer can be sent only when this one is recorded.
        fixture.inbox.put(answered(4, waiting=2))
        await fixture.until_recorded([1], [2, 3, 4])


async def test_outcomes_are_recorded_at_once_where_a_webhook_has_as_many_under_way_as_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with recorder(monkeypatch) as fixture:
        fixture.inbox.put(answered(1))
        await fixture.until_recorded([1])
        fixture.capacity.begin(KEY)
        fixture.capacity.begin(KEY)
        assert fixture.capacity.budgets([KEY]) == {}
        fixture.inbox.put(answered(2))
        await fixture.until_recorded([1], [2])
