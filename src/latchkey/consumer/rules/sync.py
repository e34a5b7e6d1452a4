"""How the local copy of a user changes. Pure: the copy before goes in, the copy after comes out.

Two things change a copy:
- **An event** (`apply_event`). Events may come late, or under an id that is now an alias. An event that is newer than
  the copy is applied: what the user holds (`_rows`), and the state of the subscription (`_synced`). An older event, or
  one without entitlements, only marks the copy stale, and the user is read again from V2 (`Applied.reread`). Currency,
  enrollments and invoices are taken from every event.
- **A snapshot** (`apply_snapshot`): the service's answer to a read. V2 decides what the user holds; V1, if it was read,
  supplies the details of the subscription.

If an event names several ids that have copies, they are one customer: `merged_copy` joins the copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from latchkey.consumer.rules.customer_snapshot import (
    CustomerSnapshot,
    SubscriptionState,
    current_subscription,
    latest_end,
    state_after_event,
    state_after_read,
)
from latchkey.consumer.rules.event_handlers import CurrencyTransaction, Enrollment, Invoice, handle
from latchkey.consumer.rules.instants import Ms, end_or_none, iso_or_none
from latchkey.consumer.rules.received_event import HeldEntitlement, ReceivedEvent
from latchkey.consumer.rules.record import Entitlement, LocalCopy, Subscription, email_of, external_user_id


class Applied(Struct, frozen=True):
    copy: LocalCopy
    # False when the event was only noted, because something newer is known or it does not say what the user holds.
    synced: bool
    # Users who must be read anew from V2.
    reread: frozenset[str]
    transaction: CurrencyTransaction | None
    enrollment: Enrollment | None
    invoice: Invoice | None


# What a record says about the purchase that access rests on.
_OF_A_PURCHASE = (
    "product_id", "purchased_at", "expires_at", "cancelled_at", "trial_end_at", "grace_period_expires_at", "store",
    "environment", "subscription_status", "auto_renew", "billing_issue", "is_active", "entitlements",
)  # fmt: skip


def is_late(event: ReceivedEvent, known: Subscription) -> bool:
    """Older than the last event applied to this record: by `sequence`, else by its timestamp."""
    sequence, at = event.fields.sequence, event.fields.event_timestamp_ms
    if sequence is not None and known.last_sequence is not None:
        return sequence < known.last_sequence
    return at is not None and known.last_event_at is not None and at < known.last_event_at


def is_doubtful(event: ReceivedEvent, known: Subscription) -> bool:
    """Next in the sequence, and yet V2 may know something newer: the last answer of the service included this event
    already, or it happened before the last event applied, as an event of an erased customer with the same id does."""
    sequence, at = event.fields.sequence, event.fields.event_timestamp_ms
    if sequence is not None and known.read_sequence is not None and sequence <= known.read_sequence:
        return True
    return at is not None and known.last_event_at is not None and at < known.last_event_at


def apply_event(copy: LocalCopy, event: ReceivedEvent, now: Ms, others: Sequence[LocalCopy] = ()) -> Applied:
    """The copy after an event. `copy` is where the event's user id leads, which is to another id where the event's has
    become an alias since. `others` are copies that exist under further ids the event names: they are the same customer,
    so that `copy` takes their place."""
    known = copy.subscription
    everybody = {event.app_user_id, known.app_user_id, *(one.subscription.app_user_id for one in others)}
    if event.held is None or is_late(event, known) or not _is_comparable(event, known):
        # What it carries may be older than what we have. Currency and enrollments are facts whenever they arrive.
        handling = handle(known, event, now)
        after = replace(copy, subscription=replace(known, stale=True))
        # By each id: should an alias be wrong, the service says so.
        reread = handling.reread | everybody
        return Applied(after, False, reread, handling.transaction, handling.enrollment, handling.invoice)
    doubtful = is_doubtful(event, known) or any(is_late(event, one.subscription) for one in others)
    copy = reduce(merged_copy, others, copy)
    handling = handle(copy.subscription, event, now)
    assert handling.held is not None
    held = {id: one for id, one in handling.held.items() if one.expires_at is None or one.expires_at > now}
    rows = _rows(copy.entitlements, held, event, now)
    synced = _synced(copy.subscription, handling.subscription, rows, event, now)
    reread = handling.reread | ({event.app_user_id, known.app_user_id} if doubtful else set())
    after = LocalCopy(replace(synced, stale=synced.stale or known.app_user_id in reread), rows)
    return Applied(after, True, reread, handling.transaction, handling.enrollment, handling.invoice)


def merged_copy(kept: LocalCopy, other: LocalCopy) -> LocalCopy:
    """The copy of a customer that another copy turned out to be, too. What the customer holds is not decided here: the
    event, or the answer of the service, that names both ids says it."""
    mine, theirs = kept.subscription, other.subscription
    if not theirs.exists:
        return kept
    # The count of the two began apart, and the one that is kept goes on.
    own = {"app_user_id": mine.app_user_id, "revision": mine.revision, "stale": mine.stale}
    own |= {"subscriptions": {**theirs.subscriptions, **mine.subscriptions}}
    if not mine.exists:
        uncounted = {"last_sequence": None, "last_event_at": None, "read_sequence": None}
        return LocalCopy(replace(theirs, **own, **uncounted), other.entitlements)
    if mine.is_active or not theirs.is_active:
        return LocalCopy(replace(mine, **own), kept.entitlements)
    bought = {name: getattr(theirs, name) for name in _OF_A_PURCHASE}
    return LocalCopy(replace(mine, **own, **bought), {**kept.entitlements, **other.entitlements})


def apply_snapshot(copy: LocalCopy, reading: CustomerSnapshot, now: Ms) -> LocalCopy:
    """The copy after the service was asked. V2 decides what the user holds and until when. Only where that makes the
    user active or inactive, other than the record says, is the rest overwritten too."""
    known, details = copy.subscription, reading.details
    active = reading.held(now)
    rows = _rows_read(copy.entitlements, active, reading, now)
    changes: dict[str, Any] = {}
    if details is not None:
        changes["subscriptions"] = details.subscriptions
    if active:
        changes["expires_at"] = latest_end(active)
    anew = has_restarted(reading, known)
    if anew:
        changes["last_sequence"] = reading.sequence
    if anew or not known.exists or known.is_active != bool(active):
        changes |= _overwritten(known, reading, active)
        if not active and (known.is_active or known.expires_at is not None):
            # V2 says that access is over, so its end cannot lie ahead.
            changes["expires_at"] = now if known.expires_at is None else min(now, known.expires_at)
    return LocalCopy(
        replace(
            known,
            email=email_of(reading.attributes),
            external_user_id=external_user_id(reading.attributes, known.app_user_id),
            is_active=bool(active),
            entitlements=_written(rows, now),
            last_revenue_sync_at=now,
            last_updated=now,
            read_sequence=reading.sequence,
            stale=False,
            **changes,
        ),
        rows,
    )


def _is_comparable(event: ReceivedEvent, known: Subscription) -> bool:
    """Whether event and record belong to one sequence. An event under an id that has become an alias since does where
    both are counted: the customer that two have become goes on from the higher count."""
    if event.app_user_id == known.app_user_id:
        return True
    counted = known.last_sequence is not None or known.read_sequence is not None
    return event.fields.sequence is not None and counted


def has_restarted(reading: CustomerSnapshot, known: Subscription) -> bool:
    """The service has told fewer events than we have applied: the customer was erased and created again, or the
    service's database was restored from a backup."""
    told, applied = reading.sequence, known.last_sequence
    return told is not None and applied is not None and told < applied


def _overwritten(known: Subscription, reading: CustomerSnapshot, active: Mapping[str, Ms | None]) -> dict[str, Any]:
    """How the subscription stands, by V1 where it was read, else as far as V2 tells."""
    state = state_after_read(bool(active), _state(known))
    changes: dict[str, Any] = {"cancelled_at": None} if active else {}
    basis = current_subscription(reading.details, active) if reading.details is not None and active else None
    if basis is not None:
        state = basis.state
        changes = {
            "product_id": basis.product_id,
            "purchased_at": basis.purchased_at,
            "cancelled_at": basis.cancelled_at,
            "grace_period_expires_at": basis.grace_period_expires_at,
            "store": basis.store,
            "environment": basis.environment,
        }
    return changes | {
        "subscription_status": state.status,
        "auto_renew": state.auto_renew,
        "billing_issue": state.billing_issue,
    }


def _synced(
    known: Subscription, handled: Subscription, rows: Mapping[str, Entitlement], event: ReceivedEvent, now: Ms
) -> Subscription:
    fields = event.fields
    ends = {id: row.expires_at for id, row in rows.items() if row.is_active}
    state = state_after_event(event.type, bool(ends), _state(handled))
    changes: dict[str, Any] = {"expires_at": _end_after(known, ends, event, now)}
    if event.attributes is not None:
        changes["email"] = email_of(event.attributes)
        changes["external_user_id"] = external_user_id(event.attributes, handled.app_user_id)
    elif handled.external_user_id is None:
        changes["external_user_id"] = handled.app_user_id
    if fields.sequence is not None:
        changes["last_sequence"] = fields.sequence
    if fields.event_timestamp_ms is not None:
        changes["last_event_at"] = fields.event_timestamp_ms
    synced = replace(
        handled,
        is_active=bool(ends),
        subscription_status=state.status,
        auto_renew=state.auto_renew,
        billing_issue=state.billing_issue,
        entitlements=_written(rows, now),
        environment=fields.environment or handled.environment,
        last_webhook_event_id=event.id,
        last_webhook_event_type=event.type,
        last_updated=now,
        **changes,
    )
    return replace(synced, subscriptions=_with_subscription(known, synced, event, now))


def _end_after(known: Subscription, ends: Mapping[str, Ms | None], event: ReceivedEvent, now: Ms) -> Ms | None:
    """The end that the event names, whatever its type; else the one that follows from what the user holds after it."""
    fields = event.fields
    if fields.expiration_at_ms is not None:
        return fields.expiration_at_ms
    if ends:
        return latest_end(ends)
    if not known.is_active:
        return known.expires_at
    # Access ended with this event.
    at = fields.event_timestamp_ms if fields.event_timestamp_ms is not None else now
    return at if known.expires_at is None else min(at, known.expires_at)


def _rows(
    before: Mapping[str, Entitlement], held: Mapping[str, HeldEntitlement], event: ReceivedEvent, now: Ms
) -> dict[str, Entitlement]:
    """All rows set inactive, then each active entitlement inserted or updated as active."""
    fields = event.fields
    rows = {id: replace(row, is_active=False) for id, row in before.items()}
    for id, one in held.items():
        known = before.get(id)
        # The event's store is the store of the event's product; another's entitlement keeps its own.
        own = known is None or one.product_id == fields.product_id
        rows[id] = Entitlement(
            entitlement_id=id,
            product_id=one.product_id,
            granted_at=known.granted_at if known is not None and known.is_active else fields.event_timestamp_ms or now,
            expires_at=one.expires_at,
            grace_period_expires_at=one.grace_period_expires_at,
            purchase_date=one.purchase_date,
            store=fields.store if known is None or own else known.store,
            environment=fields.environment if known is None or own else known.environment,
        )
    return rows


def _rows_read(
    before: Mapping[str, Entitlement], active: Mapping[str, Ms | None], reading: CustomerSnapshot, now: Ms
) -> dict[str, Entitlement]:
    rows = {id: replace(row, is_active=False) for id, row in before.items()}
    for id, ends_at in active.items():
        known = before.get(id)
        row = known or Entitlement(entitlement_id=id)
        written = reading.details.entitlements.get(id) if reading.details is not None else None
        if written is not None:
            row = replace(
                row,
                product_id=written.product_id,
                purchase_date=written.purchase_date,
                grace_period_expires_at=written.grace_period_expires_at,
            )
        granted_at = known.granted_at if known is not None and known.is_active else now
        rows[id] = replace(row, is_active=True, granted_at=granted_at, expires_at=ends_at)
    return rows


def _with_subscription(known: Subscription, synced: Subscription, event: ReceivedEvent, now: Ms) -> Mapping[str, Any]:
    """What the events tell about the subscription they are about, in V1's words; V1 itself, once asked, knows more."""
    fields = event.fields
    if synced.product_id is None or fields.purchased_at_ms is None or fields.expiration_at_ms is None:
        return synced.subscriptions
    before = synced.subscriptions.get(synced.product_id, {})
    troubled, grace, cancelled = synced.billing_issue, synced.grace_period_expires_at, synced.cancelled_at
    if known.product_id not in (None, synced.product_id):
        # The record was about another product. Its grace period and its cancellation are not this one's.
        if event.type != "BILLING_ISSUE":
            grace = _grace_of(synced.product_id, event)
            troubled = grace is not None
        if event.type not in ("CANCELLATION", "TRIAL_CANCELLED"):
            cancelled = None
    told = {
        "auto_resume_date": iso_or_none(fields.auto_resume_at_ms),
        "billing_issues_detected_at": iso_or_none(fields.event_timestamp_ms) if troubled else None,
        "expires_date": end_or_none(fields.expiration_at_ms, now),
        "grace_period_expires_date": end_or_none(grace, now),
        "original_purchase_date": iso_or_none(fields.original_purchase_date_ms or fields.purchased_at_ms),
        "purchase_date": iso_or_none(fields.purchased_at_ms),
        "refunded_at": iso_or_none(fields.event_timestamp_ms) if event.type == "REFUND" else None,
        "unsubscribe_detected_at": iso_or_none(cancelled),
        "is_sandbox": synced.environment == "SANDBOX",
        "ownership_type": before.get("ownership_type", "PURCHASED"),
        "period_type": fields.period_type or before.get("period_type", "normal"),
        "store": synced.store,
    }
    return {**synced.subscriptions, synced.product_id: told}


def _grace_of(product_id: str, event: ReceivedEvent) -> Ms | None:
    """The end of a product's grace period, by the entitlements in the event."""
    held = (event.held or {}).values()
    return max((one.grace_period_expires_at or 0 for one in held if one.product_id == product_id), default=0) or None


def _state(subscription: Subscription) -> SubscriptionState:
    return SubscriptionState(subscription.subscription_status, subscription.auto_renew, subscription.billing_issue)


def _written(rows: Mapping[str, Entitlement], now: Ms) -> dict[str, Any]:
    return {id: row.as_written(now) for id, row in rows.items() if row.is_active}
