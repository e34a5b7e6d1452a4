"""Webhooks: settings, health, circuit breaker and pause, leases, operational events, rows of the delivery log."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, NamedTuple

from msgspec import Raw, Struct

from latchkey.domain.events.customer_event import Dialect
from latchkey.domain.formats import counted, instant
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.refusal import NotFound
from latchkey.domain.retry import SCHEDULE

SECRET_PREFIX = "whsec_"  # noqa: S105 - a prefix, not a secret
# Default of `in_flight_limit`: deliveries under way at once, over all workers.
IN_FLIGHT = 100

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


def missing_webhook(id: str) -> NotFound:
    return NotFound(f"There is no webhook {id!r} in this project.", param="webhook_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The settings of a webhook."""

    name: str
    url: str
    # None: production and sandbox.
    environment: str | None = None
    # Empty: all types.
    event_types: tuple[str, ...] = ()
    app_id: str | None = None
    retry_seconds: tuple[int, ...] = SCHEDULE
    in_flight_limit: int = IN_FLIGHT
    enabled: bool = True
    dialect: str = Dialect.LATCHKEY
    # The whole value of the header, such as "Bearer ..."; None: no such header is sent.
    authorization: str | None = field(default=None, repr=False)
    # The preset and its settings, as JSON (`delivery/destination.py`); None: an ordinary webhook.
    destination: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """Counts of a webhook's deliveries."""

    waiting: int = 0
    failed: int = 0
    last_success_at: Ms | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook(Setup):
    id: str
    key: int = 0
    project_id: str = ""
    # Incremented by every change; a worker with an older version loads the webhook again.
    version: int = 1
    health: WebhookHealth = HEALTHY
    secret: str = field(repr=False)
    previous_secret: str | None = field(default=None, repr=False)
    previous_secret_until: Ms | None = None
    created_at: Ms = 0
    updated_at: Ms = 0
    # Only where they are shown.
    delivery_counts: DeliveryCounts = DeliveryCounts()

    def secrets_at(self, now: Ms) -> tuple[str, ...]:
        """The secrets that sign now: the current one, and for a while after a rotation the previous one too."""
        if self.previous_secret is None or self.previous_secret_until is None or self.previous_secret_until <= now:
            return (self.secret,)
        return self.secret, self.previous_secret


def after_success(health: WebhookHealth) -> tuple[WebhookHealth, Announcement | None]:
    recovered = Announcement.RECOVERED if health.announced_at is not None else None
    return WebhookHealth(paused_at=health.paused_at), recovered


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


def failure_in_words(health: WebhookHealth) -> str:
    since, paused_at = health.failing_since or 0, health.paused_at
    if paused_at is None:
        return f"It has been failing since {instant(since)}. Nothing is lost: what it missed can be replayed."
    failed_for = counted((paused_at - since) // DAY, "day")
    paused = f"It was paused automatically on {instant(paused_at)}, after failing for {failed_for}."
    return f"{paused} Events wait until you resume it."


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


# As the API shows it, too.
class Delivery(Struct, frozen=True, kw_only=True):
    """One event for one webhook. Its id is the event's."""

    object: Literal["webhook_delivery"] = "webhook_delivery"
    id: str
    webhook_id: str
    event_type: str
    customer_id: str
    sequence: int
    status: Status
    attempts_count: int
    created_at: Ms
    # When it was delivered or failed for good.
    finished_at: Ms | None
    response_status: int | None
    error: str | None
    replay_id: str | None


# As the API shows it, too.
class Attempt(Struct, frozen=True, kw_only=True):
    object: Literal["webhook_attempt"] = "webhook_attempt"
    number: int
    at: Ms
    milliseconds: int
    error: str | None
    # With secrets masked.
    request_headers: Raw
    response_status: int | None
    response_headers: Raw | None
    # The first 16 KiB.
    response_body: str | None


class Detail(Struct, frozen=True):
    delivery: Delivery
    # The event's JSON.
    event: bytes
    next_at: Ms | None
    attempts: list[Attempt]
    # None is the default.
    dialect: str | None = None


class DeliveryPage(Struct, frozen=True):
    deliveries: list[Delivery]
    # The next page begins after the delivery of this event. A short or empty page may still have a next one.
    after: str | None


Which = Literal["failed", "all"]


class ReplayRange(Struct, frozen=True):
    """What is sent again: what was committed since a time, until another one or now."""

    since_ms: Ms
    until_ms: Ms | None
    status: Which
    # Empty: all types.
    event_types: tuple[str, ...] = ()


class Replay(Struct, frozen=True, kw_only=True):
    """As the API shows it, too."""

    object: Literal["webhook_replay"] = "webhook_replay"
    id: str
    webhook_id: str
    state: Literal["running", "finished", "stopped"]
    since_ms: Ms
    until_ms: Ms
    status: Which
    event_types: tuple[str, ...]
    created_at: Ms
    finished_at: Ms | None
    # How many events of the range have been examined, and how many there are.
    examined: int
    total: int
    # How many deliveries it has queued so far, and their outcomes. A list of replays leaves these at 0.
    scheduled: int
    delivered: int
    failed: int
    # How many had failed and waited for a retry: they were sent at once.
    hurried: int


class OperationalEvent(Struct, frozen=True):
    project_id: str
    id: str
    # Empty for an event about an export.
    webhook_id: str
    type: str
    at: Ms
    # JSON.
    body: bytes
    # How often it was sent to the operations URL, and with which outcome.
    attempts: int = 0
    delivered_at: Ms | None = None
    error: str | None = None


# `failed` is what is not tried again, `failing` also what has failed and waits for a retry.
Chosen = Literal["waiting", "delivered", "failed", "failing"]


class DeliveryFilter(Struct, frozen=True, kw_only=True):
    status: Chosen | None = None
    type: str | None = None
    answered: StatusRange | None = None
    # Any of the customer's ids.
    customer_id: str | None = None
    # From `since` on, and before `until`.
    since: Ms | None = None
    until: Ms | None = None
