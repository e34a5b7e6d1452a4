"""Updates a webhook's health after attempts were recorded, and announces changes to the operator's own URL."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar
from uuid import uuid4

import structlog
from msgspec import json

from latchkey.database.errors import OutageError
from latchkey.database.pool import Database
from latchkey.database.transient_errors import transaction
from latchkey.domain.instants import Ms
from latchkey.domain.retry import SCHEDULE, Retry, after_failure
from latchkey.subjects.webhooks import rules
from latchkey.subjects.webhooks.delivery.destination import Outgoing
from latchkey.subjects.webhooks.delivery.sending.sender import Sender
from latchkey.subjects.webhooks.storage import webhook_rows
from latchkey.subjects.webhooks.storage.lanes import Recorded
from latchkey.subjects.webhooks.storage.webhook_rows import LockedHealth

log = structlog.get_logger()

_LONGEST = 2.0
Done = TypeVar("Done")


async def note(database: Database, recorded: Iterable[Recorded], now: Ms) -> dict[int, rules.WebhookHealth]:
    """Updates circuits and pauses. Returns the healths whose circuit opened or closed, by webhook key: only these
    change when something can be sent.

    While a webhook has no failures, nothing is read and nothing is written.
    """
    succeeded: set[int] = set()
    failed: Counter[int] = Counter()
    concerned: set[int] = set()
    for one in recorded:
        key = one.outcome.claim.webhook_key
        if one.outcome.attempt.delivered:
            succeeded.add(key)
        else:
            failed[key] += 1
            concerned.add(key)
        if one.troubled:
            concerned.add(key)
    if not concerned:
        return {}
    changed: dict[int, rules.WebhookHealth] = {}
    circuits: dict[int, rules.WebhookHealth] = {}
    async with transaction(database) as connection:
        for locked in await webhook_rows.lock_health(connection, concerned):
            before = locked.health
            # Failures count as consecutive while nothing succeeds: one success in the batch closes the circuit.
            if locked.key in succeeded:
                after, announcement = rules.after_success(before)
            else:
                after, announcement = rules.after_failures(before, failed[locked.key], now)
            if announcement is not None:
                await webhook_rows.announce(connection, _event(locked, announcement, after, now))
            if after != before:
                changed[locked.key] = after
                if after.open_until != before.open_until:
                    circuits[locked.key] = after
        if changed:
            await webhook_rows.save_health(connection, changed)
    return circuits


def _event(
    locked: LockedHealth, announcement: rules.Announcement, after: rules.WebhookHealth, now: Ms
) -> rules.OperationalEvent:
    id, before = f"op_{uuid4().hex}", locked.health
    body = {
        "object": "operational_event",
        "id": id,
        "type": str(announcement),
        "at": now,
        "project_id": locked.project_id,
        "webhook_id": locked.id,
        "url": locked.url,
        "failing_since": after.failing_since if after.failing_since is not None else before.failing_since,
        "consecutive_failures": after.failures or before.failures,
    }
    return rules.OperationalEvent(locked.project_id, id, locked.id, str(announcement), now, json.encode(body))


def operations_webhook(url: str, secret: str) -> rules.Webhook:
    return rules.Webhook(id="operations", name="operations", url=url, secret=secret)


async def tell(
    database: Database, sender: Sender, to: rules.Webhook, now: Ms, timeout_ms: int, chance: Callable[[], float]
) -> int:
    """Send the operational events that are due; returns how many there were."""
    # The lease covers all twenty events of a claim, sent one after the other.
    due = await webhook_rows.claim_announcements(database, now, now + rules.lease_ms(timeout_ms) * 20)
    for event in due:
        answer = await sender.send(to, event.id, Outgoing(to.url, event.body))
        ended = answer.at + answer.took_ms
        next_at = None
        if not answer.delivered:
            decision = after_failure(
                SCHEDULE, tries=event.attempts + 1, first_at=event.at, now=ended, chance=chance(),
                retry_after_ms=answer.retry_after_ms,
            )  # fmt: skip
            next_at = decision.at if isinstance(decision, Retry) else None
        delivered_at = ended if answer.delivered else None
        ended_with = next_at, delivered_at, answer.error
        await webhook_rows.record_announcement(database, event.project_id, event.id, *ended_with)
    return len(due)


async def retry_through_outages(work: Callable[[], Awaitable[Done]]) -> Done:
    """Do the work; while the database is unreachable, retry after a wait that grows to two seconds."""
    wait = 0.02
    while True:
        try:
            return await work()
        except OutageError as error:
            log.warning("database unreachable", reason=str(error), again_in=wait)
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST)
