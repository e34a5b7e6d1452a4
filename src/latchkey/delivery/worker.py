"""The delivery role: claim, send and record, each while the others go on.

Woken by NOTIFY and by the clock, it asks the database only when there is reason to. Everything it knows can be lost at
any moment: what was claimed falls back when the lease runs out, and is sent again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import structlog

from latchkey.delivery import health, metrics
from latchkey.delivery.agenda import Agenda
from latchkey.delivery.outage import outlive
from latchkey.delivery.reply import Answer, Reply
from latchkey.delivery.sealing import Sealer, UnsealableError
from latchkey.delivery.sender import Sender
from latchkey.delivery.webhook import IN_FLIGHT, Webhook, unsealed
from latchkey.domain.instants import Ms
from latchkey.domain.lease import lease_ms, may_begin
from latchkey.domain.retry import Retry, after_failure
from latchkey.storage.database import Database
from latchkey.storage.deliveries import lanes, recording, webhooks
from latchkey.storage.deliveries.lanes import Claim
from latchkey.storage.deliveries.recording import Outcome, Recorded
from latchkey.storage.errors import OutageError, StatementRefusedError

log = structlog.get_logger()

# One statement takes no more than this; the next follows at once.
_BATCH = 500
# While so many are under way, a few more answers are waited for before what has come is recorded: a statement for a
# hundred costs little more than one for ten, and what it records makes room for a claim of the same size.
_BUSY = 100
_LINGER = 0.005
# Notifications are not kept for those who are away, and a worker that died held leases: look around now and then.
SWEEP_SECONDS = 10.0


class Worker:
    def __init__(
        self,
        database: Database,
        sender: Sender,
        sealer: Sealer,
        *,
        now: Callable[[], Ms],
        chance: Callable[[], float],
        timeout_ms: int = 60_000,
        in_flight: int = 2_000,
    ) -> None:
        self._database = database
        self._sender = sender
        self._sealer = sealer
        self._now = now
        self._chance = chance
        self._timeout_ms = timeout_ms
        self._in_flight = in_flight
        self._agenda = Agenda()
        self._wake = asyncio.Event()
        self._webhooks: dict[int, Webhook] = {}
        # Claimed and not yet recorded, by webhook.
        self._under_way: Counter[int] = Counter()
        # By the claim's identity, for as long as the task holds it.
        self._sending: dict[int, tuple[asyncio.Task[None], Claim]] = {}
        # Webhooks that had more to send than they may at once: as soon as something is recorded they go on.
        self._held_back: set[int] = set()
        # Answered and not yet recorded.
        self._replies: list[tuple[Claim, Webhook, Reply | Answer]] = []
        self._recording = asyncio.Event()
        self._recorded_all = asyncio.Event()
        self._recorded_all.set()

    def woken(self, keys: Iterable[int]) -> None:
        """These webhooks have something new."""
        self._agenda.add(keys)
        if self._agenda:
            self._wake.set()

    async def run(self, stop: asyncio.Event, drain_seconds: float) -> None:
        recording = asyncio.create_task(self._record())
        working = [asyncio.create_task(self._claim()), asyncio.create_task(self._sweep())]
        try:
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait({stopping, recording, *working}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)
            await self._drain(drain_seconds)
        finally:
            for task in (*working, recording, *(task for task, _ in self._sending.values())):
                task.cancel()
            for ended in await asyncio.gather(*working, recording, return_exceptions=True):
                if isinstance(ended, Exception):
                    raise ended

    async def sweep(self) -> None:
        """Ask the database once what is due and when."""
        now = self._now()
        for key, at in (await lanes.due(self._database)).items():
            if at <= now:
                self.woken([key])
            else:
                self._later(key, at)

    async def _sweep(self) -> None:
        while True:
            await outlive(self.sweep)
            await asyncio.sleep(SWEEP_SECONDS)

    async def _claim(self) -> None:
        while True:
            keys = self._agenda.turn(self._now())
            budgets = self._budgets(keys)
            if budgets:
                await outlive(lambda budgets=budgets: self._claim_once(budgets))  # type: ignore[misc]  # bound at once
                continue
            await self._wait()

    async def _wait(self) -> None:
        if self._agenda:
            return
        at = self._agenda.next_at()
        patience = None if at is None else max(0.0, (at - self._now()) / 1000)
        try:
            async with asyncio.timeout(patience):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    def _budgets(self, keys: Sequence[int]) -> dict[int, int]:
        """How much to ask for each webhook. Near the process's own limit all get little rather than some nothing."""
        room = min(self._in_flight - self._under_way.total(), _BATCH)
        budgets: dict[int, int] = {}
        for place, key in enumerate(keys):
            share = max(1, room // (len(keys) - place))
            amount = min(self._limit(key) - self._under_way[key], share, room)
            if amount > 0:
                budgets[key] = amount
                room -= amount
            else:
                self._held_back.add(key)
        return budgets

    def _limit(self, key: int) -> int:
        known = self._webhooks.get(key)
        return known.setup.in_flight_limit if known is not None else IN_FLIGHT

    async def _claim_once(self, budgets: dict[int, int]) -> None:
        now = self._now()
        lease_until = now + lease_ms(self._timeout_ms)
        claims = await lanes.claim(self._database, budgets, now, lease_until)
        # Not to be given up: what is claimed is ours, and nobody else's until the lease runs out.
        await outlive(lambda: self._know({one.webhook_key: one.webhook_version for one in claims}))
        taken = Counter(one.webhook_key for one in claims)
        for key, budget in budgets.items():
            if taken[key] == budget:
                self._agenda.add([key])
            elif self._under_way[key] + taken[key] >= self._limit(key):
                self._held_back.add(key)
        for one in claims:
            webhook = self._webhooks.get(one.webhook_key)
            if webhook is not None:
                self._begin(one, webhook)

    async def _know(self, versions: dict[int, int]) -> None:
        """Have the present settings of these webhooks at hand."""
        old = [
            key
            for key, version in versions.items()
            if key not in self._webhooks or self._webhooks[key].version != version
        ]
        if not old:
            return
        for sealed in await webhooks.by_keys(self._database, old):
            try:
                self._webhooks[sealed.key] = unsealed(sealed, self._sealer)
            except UnsealableError as error:
                self._webhooks.pop(sealed.key, None)
                log.error("webhook cannot be used", webhook=sealed.id, reason=str(error))

    def _begin(self, claim: Claim, webhook: Webhook) -> None:
        now = self._now()
        if may_begin(claim.lease_until, self._timeout_ms, now):
            self._under_way[claim.webhook_key] += 1
            self._sending[id(claim)] = asyncio.create_task(self._deliver(claim, webhook, now)), claim

    async def _deliver(self, claim: Claim, webhook: Webhook, now: Ms, answered: Reply | None = None) -> None:
        """Send it; or, where it was answered already, wait for the rest of the answer."""
        try:
            if answered is None:
                reply = await self._sender.post(webhook, claim.event_id, claim.body, now)
            else:
                reply = await answered.read()
            self._replies.append((claim, webhook, reply))
            self._recorded_all.clear()
            self._recording.set()
        except Exception as error:
            self._under_way[claim.webhook_key] -= 1
            log.error("delivery ended in an unforeseen way", event_id=claim.event_id, exc_info=error)
        finally:
            del self._sending[id(claim)]

    def _judged(self, claim: Claim, webhook: Webhook, answer: Answer) -> Outcome:
        decision = None
        if not answer.delivered:
            ended = answer.at + answer.took_ms
            decision = after_failure(
                webhook.setup.retry_seconds,
                tries=claim.tries + 1,
                first_at=claim.tried_at if claim.tried_at is not None else answer.at,
                now=ended,
                chance=self._chance(),
                retry_after_ms=answer.retry_after_ms,
            )
        return Outcome(claim, answer, decision)

    def _results(self) -> list[Outcome]:
        """What can be recorded now. Bodies that are still on their way are waited for by themselves."""
        replies, self._replies = self._replies, []
        results = []
        for claim, webhook, reply in replies:
            answer = reply if isinstance(reply, Answer) else reply.at_once()
            if answer is not None:
                results.append(self._judged(claim, webhook, answer))
            elif isinstance(reply, Reply):
                work = self._deliver(claim, webhook, reply.at, reply)
                self._sending[id(claim)] = asyncio.create_task(work), claim
        return results

    async def _record(self) -> None:
        while True:
            await self._recording.wait()
            if len(self._sending) >= _BUSY and len(self._replies) < _BUSY:
                await asyncio.sleep(_LINGER)
            self._recording.clear()
            if batch := self._results():
                await self._record_batch(batch)
            if not self._replies:
                self._recorded_all.set()
                metrics.IN_FLIGHT.set(len(self._sending))

    async def _record_batch(self, batch: Sequence[Outcome]) -> None:
        try:
            await outlive(lambda: self._record_once(batch))
        except StatementRefusedError as error:
            if len(batch) > 1:
                for one in batch:
                    await self._record_batch([one])
                return
            # Nothing a receiver sends may stop the deliveries to others. The lease runs out and it is sent again.
            log.error("attempt cannot be recorded", event_id=batch[0].claim.event_id, exc_info=error)
        self._under_way.subtract(one.claim.webhook_key for one in batch)
        if self._held_back:
            ready, self._held_back = self._held_back, set()
            self.woken(ready)

    async def _record_once(self, batch: Sequence[Outcome]) -> None:
        now = self._now()
        recorded = await recording.record(self._database, batch, now)
        self._count(recorded)
        if len(recorded) < len(batch):
            metrics.LOST_LEASES.inc(len(batch) - len(recorded))
        self._go_on(recorded)
        changed = await health.note(self._database, recorded, now)
        for key, state in changed.items():
            if state.open_until is not None:
                self._later(key, state.open_until)
            elif state.paused_at is None:
                self.woken([key])

    def _count(self, recorded: Sequence[Recorded]) -> None:
        took: dict[int, list[int]] = {}
        outcomes: Counter[tuple[int, str]] = Counter()
        for one in recorded:
            key, attempt = one.outcome.claim.webhook_key, one.outcome.attempt
            took.setdefault(key, []).append(attempt.took_ms)
            outcomes[key, "failed" if attempt.error else "delivered"] += 1
        for key, times in took.items():
            if key in self._webhooks:
                metrics.LATENCIES.add(self._webhooks[key].id, times)
        for (key, outcome), count in outcomes.items():
            if key in self._webhooks:
                metrics.ATTEMPTS.labels(self._webhooks[key].id, outcome).inc(count)

    def _go_on(self, recorded: Sequence[Recorded]) -> None:
        self.woken({one.outcome.claim.webhook_key for one in recorded if one.more})
        for one in recorded:
            decision = one.outcome.decision
            if isinstance(decision, Retry):
                key = one.outcome.claim.webhook_key
                self._later(key, decision.others_at or decision.at)
                self._later(key, decision.at)

    def _later(self, key: int, at: Ms) -> None:
        self._agenda.add_later(key, at)
        self._wake.set()

    async def _drain(self, seconds: float) -> None:
        """Finish what is under way; give back the rest, so that another worker need not wait for the lease."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                # Again and again: of what was answered, some of the body may still have to come.
                while self._sending or not self._recorded_all.is_set():
                    if self._sending:
                        await asyncio.wait([task for task, _ in self._sending.values()])
                    await self._recorded_all.wait()
        unfinished = list(self._sending.values())
        for task, _ in unfinished:
            task.cancel()
        try:
            async with asyncio.timeout(5):
                await self._recorded_all.wait()
                await lanes.release(self._database, [claim for _, claim in unfinished])
        except (OutageError, TimeoutError):
            log.warning("some outcomes were not recorded; those deliveries are repeated", count=len(self._replies))
