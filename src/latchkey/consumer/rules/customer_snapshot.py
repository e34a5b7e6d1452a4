"""What the service answered about a user: V2 for access, V1 for the details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import asdict, replace

from latchkey.consumer.rules.received_event import HeldEntitlement, held_entitlements
from latchkey.consumer.rules.timestamps import Ms, from_iso, from_iso_or_none
from latchkey.wire import v1, v2
from latchkey.wire.v2 import never_ends

ACTIVE = "active"
CANCELLED = "cancelled"
EXPIRED = "expired"
TRIAL = "trial"
PAUSED = "paused"
BILLING_ISSUE = "billing_issue"


class SubscriptionState(Struct, frozen=True):
    subscription_status: str | None
    auto_renew: bool = True
    billing_issue: bool = False


def state_after_event(event_type: str | None, any_active: bool, before: SubscriptionState) -> SubscriptionState:
    """Recomputed on every event, from the entitlements in the event; without a type, when V2 contradicts the record,
    because V2 knows only about access."""
    if not any_active:
        return replace(before, subscription_status=EXPIRED, auto_renew=False)
    match event_type:
        case "TRIAL_STARTED":
            return SubscriptionState(TRIAL)
        case "SUBSCRIPTION_PAUSED":
            return replace(before, subscription_status=PAUSED, auto_renew=False)
        case "CANCELLATION":
            return replace(before, subscription_status=CANCELLED, auto_renew=False)
        case "BILLING_ISSUE":
            return replace(before, subscription_status=BILLING_ISSUE, billing_issue=True)
        case _:
            return SubscriptionState(ACTIVE)


class CustomerSnapshot(Struct, frozen=True):
    # The customer's id in the service; differs from the requested one if that is an alias.
    customer_id: str
    # Active entitlements by id with their end; None means no end.
    active: Mapping[str, Ms | None]
    attributes: Mapping[str, str]
    details: V1Details | None = None
    # The last event that it includes, if the service says so.
    sequence: int | None = None

    def held(self, now: Ms) -> dict[str, Ms | None]:
        return {id: ends_at for id, ends_at in self.active.items() if ends_at is None or ends_at > now}


class V1Details(Struct, frozen=True):
    entitlements: Mapping[str, HeldEntitlement]
    # Subscription by product id, as V1 writes it.
    subscriptions: Mapping[str, Any]


def snapshot_of(
    customer: v2.Customer,
    active: Sequence[v2.ActiveEntitlement],
    attributes: Sequence[v2.Attribute],
    subscriber: v1.Subscriber | None = None,
    sequence: int | None = None,
    *,
    now: Ms,
) -> CustomerSnapshot:
    details = None
    if subscriber is not None:
        details = V1Details(held_entitlements(subscriber.entitlements), to_builtins(subscriber.subscriptions))
    return CustomerSnapshot(
        customer.id,
        # V2 has a number even if access never ends.
        {held.entitlement_id: None if never_ends(held.expires_at, now) else held.expires_at for held in active},
        {attribute.name: attribute.value for attribute in attributes},
        details,
        sequence,
    )


def current_subscription(details: V1Details, active: Mapping[str, Ms | None]) -> dict[str, Any] | None:
    """The fields of the record that describe the subscription with the longest access; None if that access is not
    through a subscription."""
    held = details.entitlements.get(longest_access(active))
    if held is None or held.product_id is None or held.product_id not in details.subscriptions:
        return None
    subscription: Mapping[str, Any] = details.subscriptions[held.product_id]
    return {
        "product_id": held.product_id,
        "purchased_at": from_iso(subscription["purchase_date"]),
        "cancelled_at": from_iso_or_none(subscription["unsubscribe_detected_at"]),
        "grace_period_expires_at": from_iso_or_none(subscription["grace_period_expires_date"]),
        "store": subscription["store"],
        "environment": "SANDBOX" if subscription["is_sandbox"] else "PRODUCTION",
        **asdict(_state(subscription)),
    }


def longest_access(ends: Mapping[str, Ms | None]) -> str:
    return max(ends, key=lambda id: (_end(ends[id]), id))


def latest_end(ends: Mapping[str, Ms | None]) -> Ms | None:
    """The latest end of any access; None if some of it never ends."""
    return max(ends.values(), key=_end)


def _state(subscription: Mapping[str, Any]) -> SubscriptionState:
    if subscription["billing_issues_detected_at"] is not None:
        return SubscriptionState(BILLING_ISSUE, billing_issue=True)
    if subscription["auto_resume_date"] is not None:
        return SubscriptionState(PAUSED, auto_renew=False)
    if subscription["unsubscribe_detected_at"] is not None:
        return SubscriptionState(CANCELLED, auto_renew=False)
    return SubscriptionState(TRIAL if subscription["period_type"] == "trial" else ACTIVE)


def _end(ends_at: Ms | None) -> float:
    return float("inf") if ends_at is None else ends_at
