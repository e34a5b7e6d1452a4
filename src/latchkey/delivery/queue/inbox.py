"""Responses that are not recorded yet: the dispatcher puts them in, the recorder takes them out."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from msgspec import Struct

from latchkey.delivery.sending.reply import Answer, Reply
from latchkey.delivery.webhook import Webhook
from latchkey.storage.deliveries.lanes import Claim


class Answered(Struct, frozen=True):
    claim: Claim
    webhook: Webhook
    # A Reply if the status has arrived but perhaps not the body.
    reply: Reply | Answer


class Inbox:
    def __init__(self) -> None:
        self._answers: list[Answered] = []
        self._filled = asyncio.Event()
        self._urgent = asyncio.Event()
        self._all_recorded = asyncio.Event()
        self._all_recorded.set()

    def __len__(self) -> int:
        return len(self._answers)

    def put(self, answered: Answered) -> None:
        self._answers.append(answered)
        self._all_recorded.clear()
        self._filled.set()
        if answered.claim.waiting > 1:
            self._urgent.set()

    def take(self) -> list[Answered]:
        self._filled.clear()
        self._urgent.clear()
        answers, self._answers = self._answers, []
        return answers

    def recorded(self) -> None:
        """What was taken has been recorded."""
        if not self._answers:
            self._all_recorded.set()

    async def wait(self) -> None:
        await self._filled.wait()

    async def until_urgent(self, seconds: float) -> None:
        """Wait so long, or until there is a response in whose lane more deliveries wait for it to be recorded."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._urgent.wait()

    @property
    def all_recorded(self) -> bool:
        return self._all_recorded.is_set()

    async def until_recorded(self) -> None:
        await self._all_recorded.wait()
