"""Sends claimed deliveries, each in its own task, and puts the responses into the inbox."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from latchkey.delivery.dialect import body_of
from latchkey.delivery.queue.agenda import Agenda
from latchkey.delivery.queue.capacity import Capacity
from latchkey.delivery.queue.inbox import Answered, Inbox
from latchkey.delivery.sending.reply import Answer, Reply
from latchkey.delivery.sending.sender import Sender
from latchkey.delivery.webhook import Webhook
from latchkey.domain.instants import Ms
from latchkey.storage.deliveries.lanes import Claim

log = structlog.get_logger()


class Dispatcher:
    def __init__(self, sender: Sender, inbox: Inbox, capacity: Capacity, agenda: Agenda) -> None:
        self._sender = sender
        self._inbox = inbox
        self._capacity = capacity
        self._agenda = agenda
        # By id() of the claim, while its task runs.
        self._running: dict[int, tuple[asyncio.Task[None], Claim]] = {}

    def __len__(self) -> int:
        return len(self._running)

    def send(self, claim: Claim, webhook: Webhook, now: Ms) -> None:
        self._capacity.begin(claim.webhook_key)
        if claim.dialect is None:
            body = body_of(claim.event, None)
            self._run(claim, webhook, partial(self._sender.post, webhook, claim.event_id, body, now))
        else:
            self._run(claim, webhook, partial(self._translate, claim, webhook, now))

    def read_rest(self, claim: Claim, webhook: Webhook, reply: Reply) -> None:
        """Wait for the body of a response whose status has arrived."""
        self._run(claim, webhook, reply.read)

    async def wait(self) -> None:
        """Until everything that is running now has ended."""
        if self._running:
            await asyncio.wait([task for task, _ in self._running.values()])

    def cancel(self) -> list[Claim]:
        """Cancel what still runs, and return its claims."""
        unfinished = list(self._running.values())
        for task, _ in unfinished:
            task.cancel()
        return [claim for _, claim in unfinished]

    async def _translate(self, claim: Claim, webhook: Webhook, now: Ms) -> Reply | Answer:
        """In the task of the delivery, so that a failure affects no other."""
        return await self._sender.post(webhook, claim.event_id, body_of(claim.event, claim.dialect), now)

    def _run(self, claim: Claim, webhook: Webhook, attempt: Callable[[], Awaitable[Reply | Answer]]) -> None:
        self._running[id(claim)] = asyncio.create_task(self._deliver(claim, webhook, attempt)), claim

    async def _deliver(self, claim: Claim, webhook: Webhook, attempt: Callable[[], Awaitable[Reply | Answer]]) -> None:
        try:
            self._inbox.put(Answered(claim, webhook, await attempt()))
        except Exception as error:
            # Not recorded: the lease runs out and the delivery is sent again.
            log.error("delivery failed unexpectedly", event_id=claim.event_id, exc_info=error)
            self._agenda.add(self._capacity.end([claim.webhook_key]))
        finally:
            del self._running[id(claim)]
