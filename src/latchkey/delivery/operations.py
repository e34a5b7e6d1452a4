"""Tells the operator's own URL what happens to webhooks: failing, paused, recovered."""

from __future__ import annotations

from collections.abc import Callable

from latchkey.delivery.sender import Sender
from latchkey.delivery.webhook import Setup, Webhook
from latchkey.domain.instants import Ms
from latchkey.domain.lease import lease_ms
from latchkey.domain.retry import SCHEDULE, Retry, after_failure
from latchkey.domain.webhook_health import HEALTHY
from latchkey.storage.database import Database
from latchkey.storage.sql import query

_CLAIM = query("claim_announcements")
_RECORD = query("record_announcement")


def operations_webhook(url: str, secret: str) -> Webhook:
    return Webhook(0, "", "operations", 1, Setup(name="operations", url=url), HEALTHY, secret, None, None, 0, 0)


async def tell(db: Database, sender: Sender, to: Webhook, now: Ms, timeout_ms: int, chance: Callable[[], float]) -> int:
    """Send what is due; says how many there were."""
    rows = await db.pool.fetch(_CLAIM, now, now + lease_ms(timeout_ms) * 20)
    for row in rows:
        answer = await sender.send(to, row["id"], row["body"])
        ended = answer.at + answer.took_ms
        next_at = None
        if not answer.delivered:
            decision = after_failure(
                SCHEDULE, tries=row["attempts"] + 1, first_at=row["at"], now=ended, chance=chance(),
                retry_after_ms=answer.retry_after_ms,
            )  # fmt: skip
            next_at = decision.at if isinstance(decision, Retry) else None
        await db.pool.execute(
            _RECORD, row["project_id"], row["id"], next_at, ended if answer.delivered else None, answer.error
        )
    return len(rows)
