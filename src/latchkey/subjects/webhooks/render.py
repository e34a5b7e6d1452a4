"""Webhooks and their log as V2 shows them."""

from typing import Any, Literal

from msgspec import UNSET, Raw, json

from latchkey.subjects.webhooks import wire
from latchkey.subjects.webhooks.delivery.event_body import body_of
from latchkey.subjects.webhooks.rules import Attempt, Delivery, Detail, OperationalEvent, Replay
from latchkey.subjects.webhooks.usecases.registry import WebhookSummary
from latchkey.subjects.webhooks.usecases.samples import Tried


def webhook(shown: WebhookSummary, *, with_secret: bool = False) -> wire.Webhook:
    one, setup, health = shown.webhook, shown.webhook, shown.webhook.health
    paused = health.paused_at is not None or not setup.enabled
    state: Literal["ok", "failing", "paused"] = "ok"
    if paused:
        state = "paused"
    elif health.failing_since is not None:
        state = "failing"
    return wire.Webhook(
        id=one.id,
        project_id=one.project_id,
        name=setup.name,
        url=setup.url,
        environment=setup.environment,  # type: ignore[arg-type]  # the table allows no other value
        event_types=list(setup.event_types),
        app_id=setup.app_id,
        retry_schedule_seconds=list(setup.retry_seconds),
        in_flight_limit=setup.in_flight_limit,
        enabled=not paused,
        dialect=setup.dialect,  # type: ignore[arg-type]  # the table allows no other value
        has_authorization_header=setup.authorization is not None,
        signing_secret=one.secret if with_secret else UNSET,
        previous_secret_expires_at=one.previous_secret_until,
        health=wire.WebhookHealth(
            state=state,
            last_success_at=shown.delivery_counts.last_success_at,
            failing_since=health.failing_since,
            paused_at=health.paused_at,
            waiting=shown.delivery_counts.waiting,
            failed=shown.delivery_counts.failed,
        ),
        created_at=one.created_at,
        updated_at=one.updated_at,
    )


def tried(one: Tried) -> wire.WebhookTest:
    answer = one.answer
    return wire.WebhookTest(
        webhook_id=one.webhook.id,
        event_id=one.event_id,
        event_type=one.event_type,
        delivered=answer.delivered,
        status=answer.status,
        milliseconds=answer.took_ms,
        body=_text(answer.response_body),
        headers=json.decode(answer.response_headers, type=list[list[str]]),
        error=UNSET if answer.error is None else answer.error,
        request_headers=one.request_headers,
        request_body=Raw(one.body),
    )


def delivery(webhook_id: str, one: Delivery) -> wire.Delivery:
    return wire.Delivery(**_delivery(webhook_id, one))


def detail(webhook_id: str, one: Detail) -> wire.DeliveryWithAttempts:
    return wire.DeliveryWithAttempts(
        **_delivery(webhook_id, one.delivery),
        next_attempt_at=one.next_at,
        request_body=Raw(body_of(one.event, one.dialect)),
        attempts=[_attempt(each) for each in one.attempts],
    )


def replay(one: Replay) -> wire.Replay:
    return wire.Replay(
        id=one.id,
        webhook_id=one.webhook_id,
        state=one.state,
        since_ms=one.since_ms,
        until_ms=one.until_ms,
        status=one.status,
        event_types=list(one.event_types),
        created_at=one.created_at,
        finished_at=one.finished_at,
        examined=one.examined,
        total=one.total,
        scheduled=one.scheduled,
        delivered=one.delivered,
        failed=one.failed,
        hurried=one.hurried,
    )


def operational_event(one: OperationalEvent) -> wire.OperationalEvent:
    return wire.OperationalEvent(
        id=one.id,
        project_id=one.project_id,
        type=one.type,  # type: ignore[arg-type]  # the engine emits no other type
        webhook_id=one.webhook_id or None,
        occurred_at=one.at,
        data=Raw(one.body),
        delivered_at=one.delivered_at,
        error=one.error,
    )


def _delivery(webhook_id: str, one: Delivery) -> dict[str, Any]:
    return {
        "id": one.event_id,
        "webhook_id": webhook_id,
        "event_type": one.event_type,
        "customer_id": one.app_user_id,
        "sequence": one.sequence,
        "status": one.status,
        "attempts_count": one.attempts,
        "created_at": one.created_at,
        "finished_at": one.finished_at,
        "response_status": one.response_status,
        "error": one.error,
        "replay_id": one.replay_id,
    }


def _attempt(one: Attempt) -> wire.Attempt:
    return wire.Attempt(
        number=one.number,
        at=one.at,
        milliseconds=one.took_ms,
        error=one.error,
        request_headers=Raw(one.request_headers),
        response_status=one.status,
        response_headers=Raw(one.response_headers) if one.response_headers is not None else None,
        response_body=_text(one.response_body) if one.response_body is not None else None,
    )


def _text(body: bytes) -> str:
    """A receiver's response body as text, with replacement characters for invalid bytes."""
    return body.decode("utf-8", "replace")
