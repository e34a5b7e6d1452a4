"""Sends operational events (a webhook fails, is paused, has recovered) to the operator's own URL."""

from __future__ import annotations

from collections.abc import Callable

from latchkey.delivery.sending.sender import Sender
from latchkey.delivery.webhook import Setup, Webhook
from latchkey.domain.instants import Ms
from latchkey.domain.webhooks.health import HEALTHY
from latchkey.domain.webhooks.lease import lease_ms
from latchkey.domain.webhooks.retry import SCHEDULE, Retry, after_failure
from latchkey.storage.database import Database
from latchkey.storage.deliveries import announcements


def operations_webhook(url: str, secret: str) -> Webhook:
    return Webhook(0, "", "operations", 1, Setup(name="operations", url=url), HEALTHY, secret, None, None, 0, 0)


async def tell(
    database: Database, sender: Sender, to: Webhook, now: Ms, timeout_ms: int, chance: Callable[[], float]
) -> int:
    """Send the operational events that are due; returns how many there were."""
    # The lease covers all twenty events of a claim, sent one after the other.
    due = await announcements.claim(database, now, now + lease_ms(timeout_ms) * 20)
    for one in due:
        answer = await sender.send(to, one.id, one.body)
        ended = answer.at + answer.took_ms
        next_at = None
        if not answer.delivered:
            decision = after_failure(
                SCHEDULE, tries=one.attempts + 1, first_at=one.at, now=ended, chance=chance(),
                retry_after_ms=answer.retry_after_ms,
            )  # fmt: skip
            next_at = decision.at if isinstance(decision, Retry) else None
        delivered_at = ended if answer.delivered else None
        await announcements.record(database, one, next_at=next_at, delivered_at=delivered_at, error=answer.error)
    return len(due)
