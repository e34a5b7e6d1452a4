"""Sending again: one delivery by hand, or everything since a moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from latchkey.domain.instants import Ms
from latchkey.storage.database import Database


@dataclass(frozen=True, slots=True)
class Replay:
    id: str
    webhook_id: str
    since_ms: Ms
    until_ms: Ms
    status: Literal["failed", "all"]
    event_types: tuple[str, ...]
    created_at: Ms
    # How many events of the range have been looked at, of how many.
    examined: int
    total: int
    # How many deliveries it has queued so far, and what became of them.
    scheduled: int
    delivered: int
    failed: int
    finished_at: Ms | None


async def resend(db: Database, project_id: str, webhook_id: str, event_id: str, now: Ms) -> bool:
    """Send this event to this webhook once more, at once, with a fresh retry schedule; False when there is no such
    delivery. One that waits already is sent now instead of at its next retry."""
    raise NotImplementedError


async def start_replay(
    db: Database,
    project_id: str,
    webhook_id: str,
    *,
    since_ms: Ms,
    until_ms: Ms | None,
    status: Literal["failed", "all"],
    event_types: tuple[str, ...] = (),
    now: Ms,
) -> Replay | None:
    """Queue what was committed in the range: what failed, or all that the webhook's filters admit, delivered or not,
    from before the webhook existed too. The delivery role works it off; None when there is no such webhook."""
    raise NotImplementedError


async def load_replay(db: Database, project_id: str, webhook_id: str, id: str) -> Replay | None:
    raise NotImplementedError
