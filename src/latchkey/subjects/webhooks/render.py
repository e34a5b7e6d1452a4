"""Webhooks and their log as V2 shows them."""

from msgspec import UNSET, Raw, json

from latchkey.domain.refusal import Refusal
from latchkey.subjects.webhooks import wire
from latchkey.subjects.webhooks.delivery.destination import HIDDEN, DestinationSetup, Preset, presets
from latchkey.subjects.webhooks.delivery.event_body import outgoing_of, shown_body
from latchkey.subjects.webhooks.rules import Detail, OperationalEvent, Webhook
from latchkey.wire.attributes import from_attributes


def webhook(webhook: Webhook, *, with_secret: bool = False) -> wire.Webhook:
    health = webhook.health
    paused = health.paused_at is not None or not webhook.enabled
    return from_attributes(
        wire.Webhook,
        webhook,
        retry_schedule_seconds=webhook.retry_seconds,
        enabled=not paused,
        destination=destination(webhook.destination),
        has_authorization_header=webhook.authorization is not None,
        signing_secret=webhook.secret if with_secret else UNSET,
        previous_secret_expires_at=webhook.previous_secret_until,
        health=from_attributes(
            wire.WebhookHealth,
            webhook.delivery_counts,
            state="paused" if paused else "ok" if health.failing_since is None else "failing",
            failing_since=health.failing_since,
            paused_at=health.paused_at,
        ),
    )


def destination(stored: str | None) -> wire.Destination | None:
    if stored is None:
        return None
    found = json.decode(stored, type=DestinationSetup)
    secret = {field.name for field in presets()[found.preset].fields if field.is_secret}
    settings = {name: HIDDEN if name in secret else value for name, value in found.settings.items()}
    template = None if found.template is None else Raw(json.encode(found.template))
    return wire.Destination(preset=found.preset, settings=settings, template=template)


def preset(id: str, one: Preset) -> wire.DestinationPreset:
    settings = [from_attributes(wire.PresetSetting, field, secret=field.is_secret) for field in one.fields]
    return from_attributes(wire.DestinationPreset, one, id=id, settings=settings)


def detail(webhook: Webhook, one: Detail, public_url: str = "") -> wire.DeliveryWithAttempts:
    try:
        outgoing = outgoing_of(webhook, one.event, one.dialect, public_url)
    except Refusal:
        # The template does not work for this event; its attempts say why.
        outgoing = None
    return from_attributes(
        wire.DeliveryWithAttempts,
        one.delivery,
        next_attempt_at=one.next_at,
        request_body=Raw(shown_body(webhook, outgoing)),
        attempts=one.attempts,
    )


def operational_event(one: OperationalEvent) -> wire.OperationalEvent:
    return from_attributes(
        wire.OperationalEvent, one, webhook_id=one.webhook_id or None, occurred_at=one.at, data=Raw(one.body)
    )
