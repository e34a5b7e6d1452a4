"""A webhook's health as stored in its row: failures in a row, an open circuit, a pause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from latchkey.domain.webhooks.health import Health
from latchkey.storage.database import Connection, Record
from latchkey.storage.sql import query

_LOCK = query("lock_health")
_SAVE = query("save_health")


@dataclass(frozen=True, slots=True)
class Patient:
    """A webhook whose health may change, locked by the transaction that loaded it."""

    key: int
    project_id: str
    webhook_id: str
    url: str
    health: Health


async def lock(connection: Connection, keys: Iterable[int]) -> list[Patient]:
    rows = await connection.fetch(_LOCK, sorted(keys))
    return [Patient(row["key"], row["project_id"], row["id"], row["url"], health_of(row)) for row in rows]


async def save(connection: Connection, healths: Mapping[int, Health]) -> None:
    """Store the health of webhooks, by their keys."""
    found = list(healths.values())
    await connection.execute(
        _SAVE,
        list(healths),
        [one.failures for one in found],
        [one.open_until for one in found],
        [one.failing_since for one in found],
        [one.announced_at for one in found],
        [one.paused_at for one in found],
    )


def health_of(row: Record) -> Health:
    """For other storage modules that read these columns together with more."""
    return Health(row["failures"], row["open_until"], row["failing_since"], row["announced_at"], row["paused_at"])
