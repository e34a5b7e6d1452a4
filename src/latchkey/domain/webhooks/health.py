"""How a webhook fares: its circuit, its pause, and what is announced of both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from latchkey.domain.instants import Ms

# So many failures without a success between them open the circuit.
FAILURES_TO_OPEN = 10
# While open nothing is sent; then one delivery probes. The longer the trouble lasts, the rarer the probes.
SHORTEST_OPEN_MS, LONGEST_OPEN_MS = 5_000, 60_000
# A receiver that restarts is back within this; only then is it worth telling somebody.
ANNOUNCE_AFTER_MS = 60_000
PAUSE_AFTER_MS = 5 * 24 * 3600 * 1000


class Announcement(StrEnum):
    FAILING = "webhook.failing"
    PAUSED = "webhook.paused"
    RECOVERED = "webhook.recovered"


@dataclass(frozen=True, slots=True)
class Health:
    failures: int = 0
    open_until: Ms | None = None
    failing_since: Ms | None = None
    announced_at: Ms | None = None
    paused_at: Ms | None = None


HEALTHY = Health()


def after_success(health: Health) -> tuple[Health, Announcement | None]:
    told = Announcement.RECOVERED if health.announced_at is not None else None
    return Health(paused_at=health.paused_at), told


def after_failures(health: Health, count: int, now: Ms) -> tuple[Health, Announcement | None]:
    """`count` attempts failed and none succeeded."""
    since = health.failing_since if health.failing_since is not None else now
    after = replace(health, failures=health.failures + count, failing_since=since)
    if after.failures < FAILURES_TO_OPEN:
        return after, None
    # What was under way when the circuit opened comes back failed too; that is no news.
    if health.open_until is None or health.open_until <= now:
        after = replace(after, open_until=now + min(max((now - since) // 4, SHORTEST_OPEN_MS), LONGEST_OPEN_MS))
    if now - since >= PAUSE_AFTER_MS and health.paused_at is None:
        return replace(after, paused_at=now, announced_at=health.announced_at or now), Announcement.PAUSED
    if now - since >= ANNOUNCE_AFTER_MS and health.announced_at is None:
        return replace(after, announced_at=now), Announcement.FAILING
    return after, None


def resumed(health: Health) -> Health:
    """After a pause everything is forgiven; the first success will still be told."""
    return Health(announced_at=health.announced_at)


def paused_by_itself(health: Health) -> bool:
    """Whether the pause came of days of failures; somebody who pauses by hand knows it already."""
    if health.paused_at is None or health.failing_since is None:
        return False
    return health.paused_at - health.failing_since >= PAUSE_AFTER_MS
