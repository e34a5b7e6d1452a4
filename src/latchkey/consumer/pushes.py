"""Sends push notifications about events.

The event's own transaction decides whether to send a push and to which phones; sending is a job. So a push never delays
the response to the service, survives a restart, and is sent once: an event is processed once, and the provider
recognises the job's key.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from latchkey.consumer.consumer_settings import Settings
from latchkey.consumer.job_runner import LONGEST_BACKOFF_MS, Handler
from latchkey.consumer.push_texts import notification, read_texts
from latchkey.consumer.rules.customer_snapshot import TRIAL
from latchkey.consumer.rules.received_event import ReceivedEvent
from latchkey.consumer.rules.record import LocalCopy
from latchkey.consumer.rules.timestamps import DAY, HOUR, Ms
from latchkey.consumer.storage.consumer_storage import ConsumerStorage
from latchkey.consumer.storage.jobs import Job, NewJob
from latchkey.push.push_client import PushClient
from latchkey.push.push_notification import (
    NotificationRefusedError,
    PushNotification,
    PushNotSentError,
    PushResult,
    RetryPolicy,
)

log = structlog.get_logger()

PUSH = "push"
PLAN = "push_later"
# Older events cause no push. This also prevents a replay of last week's events from notifying every phone.
FRESH_MS: Ms = DAY
# The job itself is retried while the event is recent enough.
RETRY_POLICY = RetryPolicy(tries=2, timeout=10.0, deadline=60.0)
# While the provider is unreachable pushes are postponed, so that they do not block other jobs.
AWAY_MS: Ms = 15_000


class PushOrder(Struct, frozen=True, kw_only=True):
    occasion: str
    app_user_id: str
    until: Ms
    product_id: str | None = None
    ends_at: Ms | None = None
    # The phones at that time: phones added later get nothing, removed phones are left out.
    player_ids: tuple[str, ...] = ()


def occasion_of(event: ReceivedEvent) -> str | None:
    match event.type:
        case "BILLING_ISSUE":
            return "billing_issue"
        case "TRIAL_STARTED":
            return "trial_ending"
        case "EXPIRATION":
            return "expired"
        case "REFUND":
            return "refunded"
        case "NON_RENEWING_PURCHASE" if event.fields.store == "promotional":
            return "granted"
    return None


def still_applies(occasion: str, copy: LocalCopy | None, now: Ms) -> bool:
    """Whether the push still applies: not if the payment has succeeded meanwhile, or the trial was cancelled or
    converted."""
    if copy is None:
        return False
    match occasion:
        case "billing_issue":
            return copy.subscription.billing_issue
        case "trial_ending":
            ends_at = copy.subscription.trial_end_at
            return copy.subscription.subscription_status == TRIAL and ends_at is not None and ends_at > now
        case "expired":
            return not copy.held(now)
    return True


class Pushes:
    def __init__(self, store: ConsumerStorage, settings: Settings, now: Callable[[], Ms]) -> None:
        self._store = store
        self._client = PushClient(
            settings.push_api_url,
            settings.push_app_id,
            settings.push_rest_api_key,
            extra_ca=Path(settings.push_ca).read_bytes() if settings.push_ca else None,
            policy=RETRY_POLICY,
        )
        self._now = now
        self._on = frozenset(settings.push_on)
        self._texts = read_texts(settings.push_texts)
        self._trial_ending_ms = settings.push_trial_ending_hours * HOUR
        self._away_until: Ms = 0
        self.handlers: Mapping[str, Handler] = {PUSH: self._push, PLAN: self._plan}

    async def close(self) -> None:
        await self._client.close()

    async def send(self, app_user_id: str, words: PushNotification, *, key: str | None = None) -> PushResult:
        """Sends now, to every phone of a user. Phones that the provider does not know are deleted."""
        async with self._store.database.reading() as connection:
            owner = await self._store.copies.owner_of(connection, app_user_id)
            ids = await self._store.devices.player_ids(connection, owner)
        return await self._deliver(words, ids, key)

    async def follow_up(
        self, connection: AsyncConnection, news: Sequence[tuple[ReceivedEvent, LocalCopy]], now: Ms
    ) -> bool:
        """Runs in the transaction that processes the events."""
        added = False
        for event, copy in news:
            occasion = occasion_of(event)
            if occasion not in self._on or now - (event.fields.event_timestamp_ms or now) >= FRESH_MS:
                continue
            added |= await self._order(connection, event, copy, occasion, now)
        return added

    async def _order(
        self, connection: AsyncConnection, event: ReceivedEvent, copy: LocalCopy, occasion: str, now: Ms
    ) -> bool:
        fields = event.fields
        order = PushOrder(
            occasion=occasion,
            app_user_id=copy.subscription.app_user_id,
            until=now + FRESH_MS,
            product_id=fields.product_id,
            ends_at=fields.grace_period_expires_at_ms or fields.expiration_at_ms,
        )
        if occasion != "trial_ending":
            return await self._address(connection, event.id, order, now)
        trial_end = fields.expiration_at_ms
        if trial_end is None:
            return False
        order = msgspec.structs.replace(order, until=trial_end, ends_at=trial_end)
        await self._add(connection, PLAN, event.id, order, max(now, trial_end - self._trial_ending_ms))
        return True

    async def _address(self, connection: AsyncConnection, key: str, order: PushOrder, now: Ms) -> bool:
        ids = await self._store.devices.player_ids(connection, order.app_user_id)
        if ids:
            await self._add(connection, PUSH, key, msgspec.structs.replace(order, player_ids=tuple(ids)), now)
        return bool(ids)

    async def _add(self, connection: AsyncConnection, kind: str, key: str, order: PushOrder, run_at: Ms) -> None:
        await self._store.jobs.add(connection, [NewJob(kind, key, msgspec.to_builtins(order))], run_at)

    async def _plan(self, job: Job) -> None:
        """At the scheduled time: check whether it still applies, and load the current phones."""
        order = msgspec.convert(job.payload, PushOrder)
        now = self._now()

        async def work(connection: AsyncConnection) -> None:
            copy = await self._store.copies.find(connection, order.app_user_id)
            if now < order.until and still_applies(order.occasion, copy, now):
                await self._address(connection, job.key, order, now)

        await self._store.database.write(work)

    async def _push(self, job: Job) -> Ms | None:
        order = msgspec.convert(job.payload, PushOrder)
        now = self._now()
        logger = log.bind(event_id=job.key, occasion=order.occasion)
        if now >= order.until:
            logger.error("push given up", reason="provider unreachable for too long", attempts=job.attempts)
            return None
        async with self._store.database.reading() as connection:
            owner = await self._store.copies.owner_of(connection, order.app_user_id)
            copy = await self._store.copies.find(connection, owner)
            # A phone may have got another user while the provider was unreachable; the text is not for that user.
            still_theirs = set(await self._store.devices.player_ids(connection, owner))
        ids = [id for id in order.player_ids if id in still_theirs]
        if not ids or not still_applies(order.occasion, copy, now):
            return None
        if now < self._away_until:
            return self._away_until
        words = notification(self._texts[order.occasion], product_id=order.product_id, ends_at=order.ends_at)
        try:
            sent = await self._deliver(words, ids, job.key)
        except NotificationRefusedError as error:
            logger.error("push refused", error=str(error))
            return None
        except PushNotSentError as error:
            asked = round((error.retry_after or 0) * 1000)
            self._away_until = now + min(max(AWAY_MS, asked), LONGEST_BACKOFF_MS)
            raise
        logger.info(
            "pushed",
            notification_ids=sent.notification_ids,
            unknown=len(sent.invalid_player_ids),
            unsubscribed=len(sent.unsubscribed_player_ids),
        )
        return None

    async def _deliver(self, words: PushNotification, ids: Sequence[str], key: str | None) -> PushResult:
        sent = await self._client.send(words, ids, key=key)
        await self._store.devices.remove(sent.invalid_player_ids)
        return sent
