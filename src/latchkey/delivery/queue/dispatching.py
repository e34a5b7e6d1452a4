"""Sends claimed deliveries, and puts the responses into the inbox."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from urllib.parse import urlsplit

import structlog

from latchkey.delivery.dialect import body_of
from latchkey.delivery.queue.agenda import Agenda
from latchkey.delivery.queue.capacity import Capacity
from latchkey.delivery.queue.inbox import Answered, Inbox
from latchkey.delivery.queue.tracing import begun, ended
from latchkey.delivery.sending.posting import Post, give
from latchkey.delivery.sending.reply import Answer, Reply
from latchkey.delivery.sending.sender import Sender
from latchkey.delivery.webhook import Webhook
from latchkey.domain.instants import Ms
from latchkey.storage.deliveries.lanes import Claim
from latchkey.watching.tracing import Span

log = structlog.get_logger()


class Dispatcher:
    def __init__(self, sender: Sender, inbox: Inbox, capacity: Capacity, agenda: Agenda) -> None:
        self._sender = sender
        self._inbox = inbox
        self._capacity = capacity
        self._agenda = agenda
        # By id() of the claim, until it has ended.
        self._running: dict[int, _Delivery] = {}
        self._all_ended = asyncio.Event()

    def __len__(self) -> int:
        return len(self._running)

    def send(self, claim: Claim, webhook: Webhook, now: Ms, within: Span | None = None) -> None:
        """`within`: the span of the claim, if the event has a trace."""
        self._capacity.begin(claim.webhook_key)
        delivery = self._running[id(claim)] = _Delivery(self, claim, webhook)
        try:
            body = body_of(claim.event, claim.dialect)
            if within is None:
                delivery.work = self._sender.begin(webhook, claim.event_id, body, now, delivery)
                if delivery.work is None:
                    delivery.wait_for(self._sender.post(webhook, claim.event_id, body, now))
            else:
                delivery.wait_for(self._traced(claim, webhook, body, now, within))
        except Exception as error:
            delivery.failed(error)

    def read_rest(self, claim: Claim, webhook: Webhook, reply: Reply) -> None:
        """Wait for the body of a response whose status has arrived."""
        delivery = self._running[id(claim)] = _Delivery(self, claim, webhook)
        delivery.wait_for(reply.read())

    async def wait(self) -> None:
        """Until nothing is running."""
        while self._running:
            self._all_ended.clear()
            await self._all_ended.wait()

    def cancel(self) -> list[Claim]:
        """Cancel what still runs, and return its claims."""
        unfinished = list(self._running.values())
        self._running.clear()
        self._all_ended.set()
        for delivery in unfinished:
            if delivery.work is not None:
                delivery.work.cancel()
        return [delivery.claim for delivery in unfinished]

    def answered(self, claim: Claim, webhook: Webhook, reply: Reply | Answer) -> None:
        if self._remove(claim):
            self._inbox.put(Answered(claim, webhook, reply))

    def failed(self, claim: Claim, error: Exception) -> None:
        """Not recorded: the lease runs out and the delivery is sent again."""
        if self._remove(claim):
            log.error("delivery failed unexpectedly", event_id=claim.event_id, exc_info=error)
            self._agenda.add(self._capacity.end([claim.webhook_key]))

    def _remove(self, claim: Claim) -> bool:
        """It has ended. False: it was cancelled before."""
        removed = self._running.pop(id(claim), None)
        if not self._running:
            self._all_ended.set()
        return removed is not None

    async def _traced(self, claim: Claim, webhook: Webhook, body: bytes, now: Ms, within: Span) -> Reply | Answer:
        span, reply = begun(within, claim, webhook, urlsplit(webhook.setup.url).hostname or ""), None
        try:
            traceparent = span.traceparent if span is not None else None
            reply = await self._sender.post(webhook, claim.event_id, body, now, traceparent=traceparent)
            return reply
        finally:
            if span is not None:
                ended(span, reply)


class _Delivery:
    """A delivery under way. It waits for the sender, and tells the dispatcher."""

    __slots__ = ("_dispatcher", "_webhook", "claim", "work")

    def __init__(self, dispatcher: Dispatcher, claim: Claim, webhook: Webhook) -> None:
        self._dispatcher = dispatcher
        self._webhook = webhook
        self.claim = claim
        self.work: Post | asyncio.Task[None] | None = None

    def wait_for(self, work: Awaitable[Reply | Answer]) -> None:
        self.work = asyncio.get_running_loop().create_task(give(work, self))

    def answered(self, reply: Reply | Answer, /) -> None:
        self._dispatcher.answered(self.claim, self._webhook, reply)

    def failed(self, error: Exception, /) -> None:
        self._dispatcher.failed(self.claim, error)
