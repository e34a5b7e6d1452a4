"""Updates a webhook's health after attempts were recorded, and announces changes to the operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from uuid import uuid4

from msgspec import json

from latchkey.domain.instants import Ms
from latchkey.domain.webhooks.health import Announcement, Health, after_failures, after_success
from latchkey.storage.database import Database
from latchkey.storage.deliveries import announcements, health
from latchkey.storage.deliveries.announcements import OperationalEvent
from latchkey.storage.deliveries.health import Patient
from latchkey.storage.deliveries.recording import Recorded
from latchkey.storage.outages import transaction


async def note(database: Database, recorded: Iterable[Recorded], now: Ms) -> dict[int, Health]:
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
    changed: dict[int, Health] = {}
    circuits: dict[int, Health] = {}
    async with transaction(database) as connection:
        for patient in await health.lock(connection, concerned):
            before = patient.health
            # Failures count as consecutive while nothing succeeds: one success in the batch closes the circuit.
            if patient.key in succeeded:
                after, announcement = after_success(before)
            else:
                after, announcement = after_failures(before, failed[patient.key], now)
            if announcement is not None:
                await announcements.announce(connection, _event(patient, announcement, after, now))
            if after != before:
                changed[patient.key] = after
                if after.open_until != before.open_until:
                    circuits[patient.key] = after
        if changed:
            await health.save(connection, changed)
    return circuits


def _event(patient: Patient, announcement: Announcement, after: Health, now: Ms) -> OperationalEvent:
    id, before = f"op_{uuid4().hex}", patient.health
    body = {
        "object": "operational_event",
        "id": id,
        "type": str(announcement),
        "at": now,
        "project_id": patient.project_id,
        "webhook_id": patient.webhook_id,
        "url": patient.url,
        "failing_since": after.failing_since if after.failing_since is not None else before.failing_since,
        "consecutive_failures": after.failures or before.failures,
    }
    return OperationalEvent(id, patient.project_id, patient.webhook_id, str(announcement), now, json.encode(body))
