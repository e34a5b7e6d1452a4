"""Responses that are not recorded yet: the dispatcher puts them in, the recorder takes them out."""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

import structlog
from msgspec import Struct

from latchkey import spans
from latchkey.database.pool import Database
from latchkey.domain.instants import Ms
from latchkey.engine.storage import event_feed
from latchkey.spans import Span, Value
from latchkey.subjects.webhooks.delivery.event_body import body_of
from latchkey.subjects.webhooks.delivery.queue.agenda import Agenda, Capacity
from latchkey.subjects.webhooks.delivery.sending.post import Post, give
from latchkey.subjects.webhooks.delivery.sending.reply import AttemptResult, Reply
from latchkey.subjects.webhooks.delivery.sending.sender import Sender
from latchkey.subjects.webhooks.delivery.webhook import Webhook
from latchkey.subjects.webhooks.storage.lanes import Claim


class ReceivedReply(Struct, frozen=True):
    claim: Claim
    webhook: Webhook
    # A Reply if the status has arrived but perhaps not the body.
    reply: Reply | AttemptResult


class UnrecordedReplies:
    def __init__(self) -> None:
        self._answers: list[ReceivedReply] = []
        self._filled = asyncio.Event()
        self._urgent = asyncio.Event()
        self._all_recorded = asyncio.Event()
        self._all_recorded.set()

    def __len__(self) -> int:
        return len(self._answers)

    def put(self, answered: ReceivedReply) -> None:
        self._answers.append(answered)
        self._all_recorded.clear()
        self._filled.set()
        if answered.claim.waiting > 1:
            self._urgent.set()

    def take(self) -> list[ReceivedReply]:
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


# The spans of deliveries, while traces are on: an attempt continues the trace of the request that caused the event.


log = structlog.get_logger()


async def claimed_in(database: Database, claims: Sequence[Claim], began_ns: int) -> dict[tuple[str, str], Span]:
    """The span of the claim of each event that has a trace, by project and event."""
    ended_ns = time.time_ns()
    if not claims or spans.tracer is None:
        return {}
    try:
        found = await event_feed.load(database, {(one.project_id, one.event_id) for one in claims})
    except Exception as error:
        # What is claimed is sent all the same.
        log.warning("traces of deliveries not read", reason=str(error))
        return {}
    about: dict[str, Value] = {"latchkey.batch.size": len(claims)}
    return {
        event: spans.tracer.past("delivery claim", traceparent, began_ns, ended_ns, about)
        for event, traceparent in found.items()
    }


def begun(parent: Span, claim: Claim, webhook: Webhook, host: str) -> Span | None:
    """The span of one attempt."""
    if spans.tracer is None:
        return None
    about: dict[str, Value] = {
        "http.request.method": "POST",
        "server.address": host,
        "latchkey.webhook_id": webhook.id,
        "latchkey.event_id": claim.event_id,
        "http.request.resend_count": claim.attempts,
    }
    return spans.tracer.child("POST webhook", parent, about, to_others=True)


def ended(span: Span, reply: Reply | AttemptResult | None) -> None:
    """With the receiver's answer, or without one."""
    if reply is None:
        span.end({}, error="not sent")
    elif isinstance(reply, AttemptResult) and reply.status is None:
        span.end({}, error=reply.error or "no answer")
    else:
        status = reply.status if isinstance(reply, AttemptResult) else reply.response.status
        span.end({"http.response.status_code": status or 0}, error=None if status == 200 else f"status {status}")


# Sends claimed deliveries, and puts the responses into the inbox.


class Dispatcher:
    def __init__(self, sender: Sender, inbox: UnrecordedReplies, capacity: Capacity, agenda: Agenda) -> None:
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

    def answered(self, claim: Claim, webhook: Webhook, reply: Reply | AttemptResult) -> None:
        if self._remove(claim):
            self._inbox.put(ReceivedReply(claim, webhook, reply))

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

    async def _traced(
        self, claim: Claim, webhook: Webhook, body: bytes, now: Ms, within: Span
    ) -> Reply | AttemptResult:
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

    def wait_for(self, work: Awaitable[Reply | AttemptResult]) -> None:
        self.work = asyncio.get_running_loop().create_task(give(work, self))

    def answered(self, reply: Reply | AttemptResult, /) -> None:
        self._dispatcher.answered(self.claim, self._webhook, reply)

    def failed(self, error: Exception, /) -> None:
        self._dispatcher.failed(self.claim, error)
