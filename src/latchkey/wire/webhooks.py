"""V2: webhooks, what was sent to them, and how they fare. No secret is among it but `signing_secret`, once."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

DeliveryStatus = Literal["waiting", "delivered", "failed"]


class WebhookHealth(Struct, frozen=True, kw_only=True):
    # ok: the last attempt succeeded, or there was none. failing: nothing but failures since `failing_since`.
    # paused: nothing is sent, and what happens meanwhile waits.
    state: Literal["ok", "failing", "paused"]
    last_success_at: int | None
    failing_since: int | None
    paused_at: int | None
    # Deliveries that are still to be sent, and how many of the newest 10,000 were given up.
    waiting: int
    failed: int


class Webhook(Struct, frozen=True, kw_only=True):
    object: Literal["webhook"] = "webhook"
    id: str
    project_id: str
    name: str
    url: str
    # Null is both.
    environment: Literal["production", "sandbox"] | None
    # Empty is all.
    event_types: list[str]
    app_id: str | None
    retry_schedule_seconds: list[int]
    in_flight_limit: int
    # False while it is paused, by hand or by itself.
    enabled: bool
    # The Authorization value itself is never shown.
    has_authorization_header: bool
    # In the reply that makes it, and never again.
    signing_secret: str | UnsetType = UNSET
    # Until this moment the secret before the last rotation signs along.
    previous_secret_expires_at: int | None
    health: WebhookHealth
    created_at: int
    updated_at: int


class WebhookTest(Struct, frozen=True, kw_only=True):
    """A test event, and what the receiver said to it."""

    object: Literal["webhook_test"] = "webhook_test"
    webhook_id: str
    event_id: str
    event_type: str
    delivered: bool
    # Null when there was no answer.
    status: int | None
    milliseconds: int
    body: str
    headers: list[list[str]]
    # What went wrong, in words; left out when nothing did.
    error: str | UnsetType = UNSET
    request_headers: dict[str, str]
    request_body: Raw


class Attempt(Struct, frozen=True, kw_only=True):
    object: Literal["webhook_attempt"] = "webhook_attempt"
    number: int
    at: int
    milliseconds: int
    error: str | None
    request_headers: Raw
    response_status: int | None
    response_headers: Raw | None
    # The first 16 KiB.
    response_body: str | None


class Delivery(Struct, frozen=True, kw_only=True):
    """One event for one webhook. Its id is the event's."""

    object: Literal["webhook_delivery"] = "webhook_delivery"
    id: str
    webhook_id: str
    event_type: str
    customer_id: str
    sequence: int
    status: DeliveryStatus
    attempts_count: int
    created_at: int
    # When it was delivered or given up.
    finished_at: int | None
    response_status: int | None
    error: str | None
    replay_id: str | None


class DeliveryWithAttempts(Struct, frozen=True, kw_only=True):
    object: Literal["webhook_delivery"] = "webhook_delivery"
    id: str
    webhook_id: str
    event_type: str
    customer_id: str
    sequence: int
    status: DeliveryStatus
    attempts_count: int
    created_at: int
    finished_at: int | None
    response_status: int | None
    error: str | None
    replay_id: str | None
    # Null when it does not wait, or waits for an earlier event of the same customer.
    next_attempt_at: int | None
    # Exactly what is sent with every attempt.
    request_body: Raw
    attempts: list[Attempt]


class Replay(Struct, frozen=True, kw_only=True):
    object: Literal["webhook_replay"] = "webhook_replay"
    id: str
    webhook_id: str
    state: Literal["running", "finished"]
    since_ms: int
    until_ms: int
    status: Literal["failed", "all"]
    event_types: list[str]
    created_at: int
    finished_at: int | None
    # Events of the range looked at so far, of how many.
    examined: int
    total: int
    # Deliveries queued so far, and what became of them.
    scheduled: int
    delivered: int
    failed: int


class OperationalEvent(Struct, frozen=True, kw_only=True):
    object: Literal["operational_event"] = "operational_event"
    id: str
    project_id: str
    type: Literal["webhook.failing", "webhook.paused", "webhook.recovered"]
    webhook_id: str
    occurred_at: int
    data: Raw
    # When the operations URL took it; null when it has not, or none is set.
    delivered_at: int | None
    error: str | None
