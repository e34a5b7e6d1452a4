"""V2: webhooks, their deliveries and their health. The only secret is `signing_secret`, shown once."""

from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from latchkey.subjects.webhooks.rules import Attempt, Delivery


class WebhookHealth(Struct, frozen=True, kw_only=True):
    # ok: the last attempt succeeded, or there was none. failing: every attempt since `failing_since` failed.
    # paused: nothing is sent; new deliveries are queued.
    state: Literal["ok", "failing", "paused"]
    last_success_at: int | None
    failing_since: int | None
    paused_at: int | None
    # Deliveries still to be sent, and how many of the newest 10,000 have failed, for good or so far.
    waiting: int
    failed: int


class PresetSetting(Struct, frozen=True, kw_only=True):
    name: str
    label: str
    hint: str
    secret: bool
    # The whole value has to match it.
    pattern: str
    # Null: it is required.
    default: str | None


class DestinationPreset(Struct, frozen=True, kw_only=True):
    object: Literal["destination_preset"] = "destination_preset"
    id: str
    title: str
    help: str
    settings: list[PresetSetting]
    # Without this attribute of the customer nothing is sent.
    requires: str | None


class DestinationPreview(Struct, frozen=True, kw_only=True):
    """What would be sent for a sample event."""

    object: Literal["destination_preview"] = "destination_preview"
    type: str
    url: str
    headers: dict[str, str]
    body: Raw


class Destination(Struct, frozen=True, kw_only=True):
    preset: str
    # Secrets are masked.
    settings: dict[str, str]
    # Of the preset `custom`: the body, with expressions.
    template: Raw | None


class Webhook(Struct, frozen=True, kw_only=True):
    object: Literal["webhook"] = "webhook"
    id: str
    project_id: str
    name: str
    url: str
    # Null means both.
    environment: Literal["production", "sandbox"] | None
    # Empty means all.
    event_types: list[str]
    app_id: str | None
    retry_schedule_seconds: list[int]
    in_flight_limit: int
    # False while paused, by hand or automatically.
    enabled: bool
    # The form of the bodies.
    dialect: Literal["latchkey", "revenuecat"]
    # Null: an ordinary webhook.
    destination: Destination | None
    # The Authorization value itself is never shown.
    has_authorization_header: bool
    # Only in the response that creates it.
    signing_secret: str | UnsetType = UNSET
    # Until then, deliveries are also signed with the secret before the last rotation.
    previous_secret_expires_at: int | None
    health: WebhookHealth
    created_at: int
    updated_at: int


class WebhookTest(Struct, frozen=True, kw_only=True):
    """A test event, and the receiver's response."""

    object: Literal["webhook_test"] = "webhook_test"
    webhook_id: str
    event_id: str
    event_type: str
    delivered: bool
    # Null when there was no response.
    status: int | None
    milliseconds: int
    body: str
    headers: list[list[str]]
    # What went wrong, as text; left out if nothing did.
    error: str | UnsetType = UNSET
    request_headers: dict[str, str]
    request_body: Raw


class DeliveryWithAttempts(Delivery, frozen=True, kw_only=True):
    # Null when the delivery is not pending, or waits for an earlier event of the same customer.
    next_attempt_at: int | None
    # Exactly the body sent with every attempt.
    request_body: Raw
    attempts: list[Attempt]


class OperationalEvent(Struct, frozen=True, kw_only=True):
    object: Literal["operational_event"] = "operational_event"
    id: str
    project_id: str
    type: Literal["webhook.failing", "webhook.paused", "webhook.recovered", "export.failed", "export.recovered"]
    # Null for an export: `data` names it.
    webhook_id: str | None
    occurred_at: int
    data: Raw
    # When the operations URL accepted it; null when it has not yet, or no URL is set.
    delivered_at: int | None
    error: str | None
