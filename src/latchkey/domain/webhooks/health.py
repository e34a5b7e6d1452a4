"""The health of a webhook: its circuit breaker, its pause, and the operational events about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from latchkey.domain.instants import Ms

# This many failures in a row open the circuit.
FAILURES_TO_OPEN = 10
# While the circuit is open nothing is sent; then one delivery probes. The open time grows with every failed probe.
SHORTEST_OPEN_MS, LONGEST_OPEN_MS = 5_000, 60_000
# A restarting receiver is back within this time; only a longer failure is announced.
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
    # Deliveries under way when the circuit opened may fail too. They do not extend it.
    if health.open_until is None or health.open_until <= now:
        after = replace(after, open_until=now + min(max((now - since) // 4, SHORTEST_OPEN_MS), LONGEST_OPEN_MS))
    if now - since >= PAUSE_AFTER_MS and health.paused_at is None:
        return replace(after, paused_at=now, announced_at=health.announced_at or now), Announcement.PAUSED
    if now - since >= ANNOUNCE_AFTER_MS and health.announced_at is None:
        return replace(after, announced_at=now), Announcement.FAILING
    return after, None


def resumed(health: Health) -> Health:
    """After a pause the failures are reset; the first success is still announced."""
    return Health(announced_at=health.announced_at)


def corrected(health: Health, now: Ms) -> Health:
    """After a change of what may have caused the failures, one delivery probes at once."""
    return replace(health, open_until=now) if health.open_until is not None and health.open_until > now else health


def paused_by_itself(health: Health) -> bool:
    """Whether days of failures caused the pause. A pause by hand is not announced."""
    if health.paused_at is None or health.failing_since is None:
        return False
    return health.paused_at - health.failing_since >= PAUSE_AFTER_MS
