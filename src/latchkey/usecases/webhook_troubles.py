"""Webhooks that somebody should look at: failing now, or paused by themselves because they failed for days."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.delivery.webhook import health_of
from latchkey.domain.instants import Ms
from latchkey.domain.webhook_health import paused_by_itself
from latchkey.storage.database import Database
from latchkey.storage.sql import query

_TROUBLED = query("troubled_webhooks")

# More would be a list, and there is one.
MOST = 20


@dataclass(frozen=True, slots=True)
class Trouble:
    webhook_id: str
    name: str
    failing_since: Ms
    # None while it is still being tried.
    paused_at: Ms | None


async def troubles_of(db: Database, project_id: str) -> list[Trouble]:
    """Without those that somebody paused by hand."""
    found = []
    for row in await db.pool.fetch(_TROUBLED, project_id, MOST):
        health = health_of(row)
        if health.failing_since is not None and (health.paused_at is None or paused_by_itself(health)):
            found.append(Trouble(row["id"], row["name"], health.failing_since, health.paused_at))
    return found
