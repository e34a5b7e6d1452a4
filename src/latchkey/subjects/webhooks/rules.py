"""Webhooks: health, circuit breaker and pause, leases, operational events, and the rows of the delivery log."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, NamedTuple

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
class WebhookHealth:
    failures: int = 0
    open_until: Ms | None = None
    failing_since: Ms | None = None
    announced_at: Ms | None = None
    paused_at: Ms | None = None


HEALTHY = WebhookHealth()


def after_success(health: WebhookHealth) -> tuple[WebhookHealth, Announcement | None]:
    told = Announcement.RECOVERED if health.announced_at is not None else None
    return WebhookHealth(paused_at=health.paused_at), told


def after_failures(health: WebhookHealth, count: int, now: Ms) -> tuple[WebhookHealth, Announcement | None]:
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


def resumed(health: WebhookHealth) -> WebhookHealth:
    """After a pause the failures are reset; the first success is still announced."""
    return WebhookHealth(announced_at=health.announced_at)


def corrected(health: WebhookHealth, now: Ms) -> WebhookHealth:
    """After a change of what may have caused the failures, one delivery probes at once."""
    return replace(health, open_until=now) if health.open_until is not None and health.open_until > now else health


def paused_by_itself(health: WebhookHealth) -> bool:
    """Whether days of failures caused the pause. A pause by hand is not announced."""
    if health.paused_at is None or health.failing_since is None:
        return False
    return health.paused_at - health.failing_since >= PAUSE_AFTER_MS


def lease_ms(timeout_ms: int) -> int:
    """Longer than any attempt, including recording its outcome: until it ends no other worker may send."""
    return timeout_ms + max(2_000, timeout_ms // 4)


def may_begin(lease_until: Ms, timeout_ms: int, now: Ms) -> bool:
    """A delayed worker must not begin an attempt that could outlast its lease."""
    return now + timeout_ms < lease_until


Status = Literal["waiting", "delivered", "failed"]


class StatusRange(NamedTuple):
    """The receiver's last response, as a range of HTTP statuses. (0, 0): it was tried and there was no response."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Delivery:
    event_id: str
    event_type: str
    app_user_id: str
    sequence: int
    status: Status
    attempts: int
    created_at: Ms
    finished_at: Ms | None
    response_status: int | None
    error: str | None
    replay_id: str | None


@dataclass(frozen=True, slots=True)
class Attempt:
    number: int
    at: Ms
    took_ms: int
    error: str | None
    status: int | None
    # As JSON, secrets masked.
    request_headers: bytes
    response_headers: bytes | None
    response_body: bytes | None


@dataclass(frozen=True, slots=True)
class Detail:
    delivery: Delivery
    # The event's JSON.
    event: bytes
    next_at: Ms | None
    attempts: list[Attempt]
    # None is the default.
    dialect: str | None = None


Which = Literal["failed", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedReplay:
    id: str
    webhook_id: str
    since_ms: Ms
    until_ms: Ms
    status: Which
    event_types: tuple[str, ...]
    created_at: Ms
    # How many events of the range have been examined, and how many there are.
    examined: int
    total: int
    # How many deliveries it has queued so far.
    scheduled: int
    # How many had failed and waited for a retry: they were sent at once.
    hurried: int
    finished_at: Ms | None
    stopped_at: Ms | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay(StartedReplay):
    # The outcomes of what it has queued.
    delivered: int
    failed: int


@dataclass(frozen=True, slots=True)
class OperationalEvent:
    id: str
    project_id: str
    type: str
    webhook_id: str
    at: Ms
    # JSON.
    body: bytes
    delivered_at: Ms | None
    error: str | None


# `failing` is what has failed for good, or has failed and waits for a retry.
Chosen = Literal["waiting", "delivered", "failed", "failing"]


@dataclass(frozen=True, slots=True)
class NewOperationalEvent:
    id: str
    project_id: str
    webhook_id: str
    type: str
    at: Ms
    body: bytes
