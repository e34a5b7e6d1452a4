"""Sends claimed deliveries: which webhooks have something to send, how many may be under way, and what was answered."""

import asyncio
import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit

import structlog
from msgspec import Struct

from latchkey import spans
from latchkey.database.pool import Database
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Refusal
from latchkey.engine.storage import event_feed
from latchkey.spans import Span, Value
from latchkey.subjects.webhooks.delivery.destination import Outgoing, compiled
from latchkey.subjects.webhooks.delivery.event_body import outgoing_of
from latchkey.subjects.webhooks.delivery.sending.reply import Done, Post, Reply, give
from latchkey.subjects.webhooks.delivery.sending.sender import Sender
from latchkey.subjects.webhooks.rules import Webhook
from latchkey.subjects.webhooks.storage.lanes import AttemptResult, Claim

log = structlog.get_logger()


class Agenda:
    """Which webhooks may have something to send, as far as this worker knows: now, or at a later time."""

    def __init__(self) -> None:
        # A dict for its order: webhooks that wait longest come first.
        self._now: dict[int, None] = {}
        # A heap. An entry that is not in `_soonest` is outdated; it causes one query that finds nothing.
        self._later: list[tuple[Ms, int]] = []
        self._soonest: dict[int, Ms] = {}
        # Webhooks whose time has come. Only the soonest of a webhook is kept, so when its next one is must be asked.
        self._fell_due: set[int] = set()
        self._changed = asyncio.Event()

    def add(self, keys: Iterable[int]) -> None:
        self._now.update(dict.fromkeys(keys))
        if self._now:
            self._changed.set()

    def add_later(self, key: int, at: Ms) -> None:
        known = self._soonest.get(key)
        if known is None or at < known:
            self._soonest[key] = at
            heapq.heappush(self._later, (at, key))
        self._changed.set()

    def turn(self, now: Ms) -> list[int]:
        """Remove and return the webhooks to query now; those that waited longest come first."""
        while self._later and self._later[0][0] <= now:
            at, key = heapq.heappop(self._later)
            if self._soonest.get(key) == at:
                del self._soonest[key]
            self._now.setdefault(key)
            self._fell_due.add(key)
        keys, self._now = list(self._now), {}
        return keys

    def fell_due(self) -> list[int]:
        """Remove and return the webhooks that were returned because their time had come."""
        keys, self._fell_due = list(self._fell_due), set()
        return keys

    def wake(self) -> None:
        """End the current `wait`."""
        self._changed.set()

    async def wait(self, now: Callable[[], Ms]) -> None:
        """Until there may be something to do: a webhook was added, or the next time has come."""
        if self._now:
            return
        seconds = max(0.0, (self._later[0][0] - now()) / 1000) if self._later else None
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass
        self._changed.clear()


# The most that one claim takes; the next follows at once.
BATCH = 500


class Capacity:
    """Counts what is claimed and not yet recorded.

    A webhook's limit applies over all workers; the claim statement enforces it. The counts here avoid claims that would
    get nothing.
    """

    def __init__(self, in_all: int, limit_of: Callable[[int], int]) -> None:
        self._in_all = in_all
        self._limit_of = limit_of
        self._under_way: Counter[int] = Counter()
        # Webhooks that may have more pending than they may send at once.
        self._held_back: set[int] = set()

    @property
    def holds_back(self) -> bool:
        """Some webhook waits for the end of others."""
        return bool(self._held_back)

    def budgets(self, keys: Sequence[int]) -> dict[int, int]:
        """How many deliveries to claim for each webhook. Near the process's limit each gets a little."""
        room = min(self._in_all - self._under_way.total(), BATCH)
        budgets: dict[int, int] = {}
        for place, key in enumerate(keys):
            share = max(1, room // (len(keys) - place))
            amount = min(self._limit_of(key) - self._under_way[key], share, room)
            if amount > 0:
                budgets[key] = amount
                room -= amount
            else:
                self._held_back.add(key)
        return budgets

    def claimed(self, budgets: Mapping[int, int], taken: Mapping[int, int]) -> list[int]:
        """The webhooks to query again at once: those that used up their budget."""
        again: list[int] = []
        for key, budget in budgets.items():
            got = taken.get(key, 0)
            if got == budget:
                again.append(key)
            elif self._under_way[key] + got >= self._limit_of(key):
                self._held_back.add(key)
        return again

    def begin(self, key: int) -> None:
        self._under_way[key] += 1

    def end(self, keys: Iterable[int]) -> set[int]:
        """These deliveries are finished; returns the webhooks that were held back and can continue."""
        self._under_way.subtract(keys)
        ready, self._held_back = self._held_back, set()
        return ready


class ReceivedReply(Struct, frozen=True):
    claim: Claim
    webhook: Webhook
    # A Reply if the status has arrived but perhaps not the body.
    reply: Reply | AttemptResult


class UnrecordedReplies:
    """Responses that are not recorded yet: the dispatcher puts them in, the recorder takes them out."""

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


async def claimed_in(database: Database, claims: Sequence[Claim], began_ns: int) -> dict[tuple[str, str], Span]:
    """The span of the claim of each event that has a trace, by project and event."""
    ended_ns = time.time_ns()
    if not claims or spans.tracer is None:
        return {}
    try:
        found = await event_feed.load(database, {(claim.project_id, claim.event_id) for claim in claims})
    except Exception as error:
        # What is claimed is sent all the same.
        log.warning("traces of deliveries not read", reason=str(error))
        return {}
    about: dict[str, Value] = {"latchkey.batch.size": len(claims)}
    return {
        event: spans.tracer.past("delivery claim", traceparent, began_ns, ended_ns, about)
        for event, traceparent in found.items()
    }


def begun(parent: Span, claim: Claim, webhook: Webhook, host: str) -> Span:
    """The span of one attempt."""
    assert spans.tracer is not None, "it has made the parent"
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


class _Delivery(Struct):
    """A delivery under way."""

    claim: Claim
    work: Post | asyncio.Task[None] | None = None


class Dispatcher:
    """Sends claimed deliveries, and puts the responses into the inbox."""

    def __init__(self, sender: Sender, inbox: UnrecordedReplies, capacity: Capacity) -> None:
        self._sender = sender
        self._inbox = inbox
        self._capacity = capacity
        # By id() of the claim, until it has ended.
        self._running: dict[int, _Delivery] = {}
        self._all_ended = asyncio.Event()

    def __len__(self) -> int:
        return len(self._running)

    def send(self, claim: Claim, webhook: Webhook, now: Ms, within: Span | None = None) -> None:
        """`within`: the span of the claim, if the event has a trace."""
        self._capacity.begin(claim.webhook_key)
        delivery, done = self._begun(claim, webhook, now)
        try:
            outgoing = outgoing_of(webhook, claim.event, claim.dialect, self._sender.public_url)
            if outgoing is None:
                # A destination has no use for the event. It counts as delivered, and the log says why.
                why = compiled(webhook.destination or "").why_not
                done(AttemptResult(now, 0, None, None, b"{}", response_body=why.encode()))
            elif within is not None:
                delivery.work = give(self._traced(claim, webhook, outgoing, now, within), done)
            else:
                delivery.work = self._sender.begin(webhook, claim.event_id, outgoing, now, done) or give(
                    self._sender.post(webhook, claim.event_id, outgoing, now), done
                )
        except Refusal as refusal:
            # A destination's template does not work for this event: an attempt that failed, and is in the log.
            done(AttemptResult(now, 0, None, refusal.message, b"{}"))
        except Exception as error:
            done(error)

    def read_rest(self, claim: Claim, webhook: Webhook, reply: Reply) -> None:
        """Wait for the body of a response whose status has arrived."""
        delivery, done = self._begun(claim, webhook, reply.at, reply)
        delivery.work = give(reply.read(), done)

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

    def _begun(self, claim: Claim, webhook: Webhook, at: Ms, reply: Reply | None = None) -> tuple[_Delivery, Done]:
        delivery = self._running[id(claim)] = _Delivery(claim)
        return delivery, partial(self._ended, claim, webhook, at, reply)

    def _ended(
        self, claim: Claim, webhook: Webhook, at: Ms, reply: Reply | None, result: Reply | AttemptResult | Exception
    ) -> None:
        removed = self._running.pop(id(claim), None)
        if not self._running:
            self._all_ended.set()
        if removed is None:
            # It was cancelled before.
            return
        if isinstance(result, Exception):
            # Recorded as an attempt: otherwise it would be sent again with each lease, for ever.
            log.error("delivery failed unexpectedly", event_id=claim.event_id, exc_info=result)
            unexpected = AttemptResult(at, 0, None, "failed unexpectedly in Latchkey; its log says why", b"{}")
            result = unexpected if reply is None else reply.status_only()
        self._inbox.put(ReceivedReply(claim, webhook, result))

    async def _traced(
        self, claim: Claim, webhook: Webhook, outgoing: Outgoing, now: Ms, within: Span
    ) -> Reply | AttemptResult:
        span, reply = begun(within, claim, webhook, urlsplit(webhook.url).hostname or ""), None
        try:
            reply = await self._sender.post(webhook, claim.event_id, outgoing, now, traceparent=span.traceparent)
            return reply
        finally:
            ended(span, reply)
