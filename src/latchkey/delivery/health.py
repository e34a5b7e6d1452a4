"""A webhook's health after the attempts just recorded, and what is announced of it."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import uuid4

from msgspec import json

from latchkey.delivery.lane import Recorded
from latchkey.delivery.webhook import health_of, save_health
from latchkey.domain.instants import Ms
from latchkey.domain.webhook_health import Announcement, Health, after_failures, after_success
from latchkey.storage.database import Database, Record
from latchkey.storage.sql import query

_LOCK = query("lock_health")
_ANNOUNCE = query("announce")


async def note(db: Database, recorded: Iterable[Recorded], now: Ms) -> dict[int, Health]:
    """Keep the circuits and pauses. In good times nothing is read and nothing is written."""
    succeeded: set[int] = set()
    failed: dict[int, int] = {}
    concerned: set[int] = set()
    for one in recorded:
        key = one.result.claim.webhook_key
        if one.result.answer.delivered:
            succeeded.add(key)
        else:
            failed[key] = failed.get(key, 0) + 1
            concerned.add(key)
        if one.troubled:
            concerned.add(key)
    if not concerned:
        return {}
    changed: dict[int, Health] = {}
    async with db.transaction() as connection:
        for row in await connection.fetch(_LOCK, sorted(concerned)):
            key, before = row["key"], health_of(row)
            # Consecutive means without a success: one among many failures closes the circuit.
            if key in succeeded:
                after, announcement = after_success(before)
            else:
                after, announcement = after_failures(before, failed[key], now)
            if announcement is not None:
                await connection.execute(_ANNOUNCE, *_event(row, announcement, after, now))
            if after != before:
                changed[key] = after
        if changed:
            await save_health(connection, changed)
    return changed


def _event(row: Record, announcement: Announcement, health: Health, now: Ms) -> tuple[str, str, str, str, Ms, bytes]:
    id = f"op_{uuid4().hex}"
    body = {
        "object": "operational_event",
        "id": id,
        "type": str(announcement),
        "at": now,
        "project_id": row["project_id"],
        "webhook_id": row["id"],
        "url": row["url"],
        "failing_since": health.failing_since if health.failing_since is not None else row["failing_since"],
        "consecutive_failures": health.failures or row["failures"],
    }
    return row["project_id"], id, row["id"], str(announcement), now, json.encode(body)
