"""One event as a row, with the same texts whether the server or a script renders it."""

from typing import Any

from latchkey.dashboard import texts
from latchkey.dashboard.links import address
from latchkey.dashboard.page import Visit
from latchkey.domain.customers.identity import ERASED
from latchkey.domain.events.customer_event import EventType
from latchkey.subjects.events.rules import DeliveryTally, ListedEvent

_TYPES = {
    "good": "INITIAL_PURCHASE RENEWAL NON_RENEWING_PURCHASE UNCANCELLATION REFUND_REVERSED SUBSCRIPTION_EXTENDED",
    "accent": "TRIAL_STARTED PRODUCT_CHANGE TRANSFER SUBSCRIBER_ALIAS",
    "warn": "CANCELLATION TRIAL_CANCELLED BILLING_ISSUE SUBSCRIPTION_PAUSED",
    "bad": "EXPIRATION REFUND",
}
# The colour of each type.
KINDS: dict[str, str] = {EventType(type): kind for kind, types in _TYPES.items() for type in types.split()}


def row_of(visit: Visit, event: ListedEvent) -> dict[str, Any]:
    return {
        "position": event.position,
        "id": event.id,
        "type": event.type,
        "kind": KINDS.get(event.type, ""),
        "environment": event.environment.capitalize(),
        "customer": "erased customer" if event.app_user_id.startswith(f"{ERASED}:") else event.app_user_id,
        # The pseudonym of an erased customer has no page.
        "customer_href": address(visit, event.app_user_id) if event.owner is not None else None,
        "product": event.product_id or "",
        "at": texts.iso(event.occurred_at),
        "at_text": texts.instant(event.occurred_at),
        "href": visit.path("events", event.id),
        "deliveries": standing(event.deliveries),
    }


def standing(tally: DeliveryTally) -> list[dict[str, str]]:
    """The statuses of an event's deliveries, the worst first; without a number if there is one webhook."""
    counts = (
        ("failed", "bad", tally.failed),
        ("waiting", "warn", tally.waiting),
        ("delivered", "good", tally.delivered),
    )
    alone = sum(tally) == 1
    return [{"kind": kind, "text": word if alone else f"{count} {word}"} for word, kind, count in counts if count]
