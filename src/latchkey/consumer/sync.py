"""An event, or an answer of the service, brought into the local copy. Pure: the copy before in, the copy after out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from latchkey.consumer import identity
from latchkey.consumer.event import Event, Held
from latchkey.consumer.handlers import CurrencyTransaction, Enrollment, Invoice, handle
from latchkey.consumer.instants import Ms, iso_or_none
from latchkey.consumer.reading import Reading, contract, latest_end
from latchkey.consumer.record import Entitlement, LocalCopy, Subscription
from latchkey.consumer.status import EXPIRED, Standing, standing_after, standing_after_reading


@dataclass(frozen=True, slots=True)
class Applied:
    copy: LocalCopy
    # False when the event was only noted, because something newer is known or it does not say what the user holds.
    synced: bool
    # Users who must be read anew from V2.
    reread: frozenset[str]
    transaction: CurrencyTransaction | None
    enrollment: Enrollment | None
    invoice: Invoice | None


class NobodyError(Exception):
    """The event names no user."""


def is_late(event: Event, known: Subscription) -> bool:
    """Older than the last event applied for this user: by `sequence`, else by its timestamp."""
    sequence, at = event.fields.sequence, event.fields.event_timestamp_ms
    if sequence is not None and known.last_sequence is not None:
        return sequence < known.last_sequence
    return at is not None and known.last_event_at is not None and at < known.last_event_at


def was_read(event: Event, known: Subscription) -> bool:
    """The last answer of the service included this event already."""
    sequence = event.fields.sequence
    return sequence is not None and known.read_sequence is not None and sequence <= known.read_sequence


def apply_event(copy: LocalCopy, event: Event, now: Ms) -> Applied:
    """The copy after an event. `copy` is where the event's user id leads, which is to another id where the event's has
    become an alias since."""
    if not event.app_user_id:
        raise NobodyError("The event names no user.")
    known = copy.subscription
    handling = handle(known, event, now)
    renamed = event.app_user_id != known.app_user_id
    if handling.held is None or renamed or is_late(event, known):
        # What it carries may be older than what we have. Currency and enrollments are facts whenever they arrive.
        after = replace(copy, subscription=replace(known, stale=True))
        # By the event's own id: should the alias be wrong, the service says so.
        reread = handling.reread | {event.app_user_id}
        return Applied(after, False, reread, handling.transaction, handling.enrollment, handling.invoice)
    held = {id: one for id, one in handling.held.items() if one.expires_at is None or one.expires_at > now}
    rows = _rows(copy.entitlements, held, event, now)
    synced = _synced(handling.subscription, rows, event, now)
    # We have read further than this event, and undo that by applying it: what came after it may come with no event of
    # its own, as when the purchase went to another user.
    reread = handling.reread | {event.app_user_id} if was_read(event, known) else handling.reread
    after = LocalCopy(replace(synced, stale=synced.stale or known.app_user_id in reread), rows)
    return Applied(after, True, reread, handling.transaction, handling.enrollment, handling.invoice)


def apply_reading(copy: LocalCopy, reading: Reading, now: Ms) -> LocalCopy:
    """The copy after the service was asked: V2 decides who may do what, V1, where it was read too, knows the rest."""
    known, details = copy.subscription, reading.details
    active = reading.held(now)
    rows = _rows_read(copy.entitlements, active, reading, now)
    standing = standing_after_reading(bool(active), _standing(known))
    changes: dict[str, Any] = {}
    if active and known.subscription_status in (None, EXPIRED):
        changes["cancelled_at"] = None
    if details is not None:
        changes["subscriptions"] = details.subscriptions
        if active and (basis := contract(details, active)) is not None:
            standing = basis.standing
            changes |= {
                "product_id": basis.product_id,
                "purchased_at": basis.purchased_at,
                "cancelled_at": basis.cancelled_at,
                "grace_period_expires_at": basis.grace_period_expires_at,
                "store": basis.store,
                "environment": basis.environment,
            }
    if active:
        changes["expires_at"] = latest_end(active)
    return LocalCopy(
        replace(
            known,
            email=identity.email(reading.attributes),
            external_user_id=identity.external_user_id(reading.attributes, known.app_user_id),
            is_active=bool(active),
            subscription_status=standing.status,
            auto_renew=standing.auto_renew,
            billing_issue=standing.billing_issue,
            entitlements=_written(rows),
            last_revenue_sync_at=now,
            last_updated=now,
            read_sequence=reading.sequence,
            stale=False,
            **changes,
        ),
        rows,
    )


def _synced(handled: Subscription, rows: Mapping[str, Entitlement], event: Event, now: Ms) -> Subscription:
    fields = event.fields
    ends = {id: row.expires_at for id, row in rows.items() if row.is_active}
    standing = standing_after(event.type, bool(ends), _standing(handled))
    changes: dict[str, Any] = {}
    if ends and fields.expiration_at_ms is None:
        changes["expires_at"] = latest_end(ends)
    if event.attributes is not None:
        changes["email"] = identity.email(event.attributes)
        changes["external_user_id"] = identity.external_user_id(event.attributes, event.app_user_id)
    elif handled.external_user_id is None:
        changes["external_user_id"] = event.app_user_id
    if fields.sequence is not None:
        changes["last_sequence"] = fields.sequence
    if fields.event_timestamp_ms is not None:
        changes["last_event_at"] = fields.event_timestamp_ms
    synced = replace(
        handled,
        is_active=bool(ends),
        subscription_status=standing.status,
        auto_renew=standing.auto_renew,
        billing_issue=standing.billing_issue,
        entitlements=_written(rows),
        environment=fields.environment or handled.environment,
        last_webhook_event_id=event.id,
        last_webhook_event_type=event.type,
        last_updated=now,
        **changes,
    )
    return replace(synced, subscriptions=_with_subscription(synced, event))


def _rows(before: Mapping[str, Entitlement], held: Mapping[str, Held], event: Event, now: Ms) -> dict[str, Entitlement]:
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
    before: Mapping[str, Entitlement], active: Mapping[str, Ms | None], reading: Reading, now: Ms
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


def _with_subscription(synced: Subscription, event: Event) -> Mapping[str, Any]:
    """What the events tell about the subscription they are about, in V1's words; V1 itself, once asked, knows more."""
    fields = event.fields
    if synced.product_id is None or fields.purchased_at_ms is None or fields.expiration_at_ms is None:
        return synced.subscriptions
    before = synced.subscriptions.get(synced.product_id, {})
    told = {
        "auto_resume_date": iso_or_none(fields.auto_resume_at_ms),
        "billing_issues_detected_at": iso_or_none(fields.event_timestamp_ms) if synced.billing_issue else None,
        "expires_date": iso_or_none(fields.expiration_at_ms),
        "grace_period_expires_date": iso_or_none(synced.grace_period_expires_at),
        "original_purchase_date": iso_or_none(fields.original_purchase_date_ms or fields.purchased_at_ms),
        "purchase_date": iso_or_none(fields.purchased_at_ms),
        "refunded_at": iso_or_none(fields.event_timestamp_ms) if event.type == "REFUND" else None,
        "unsubscribe_detected_at": iso_or_none(synced.cancelled_at),
        "is_sandbox": synced.environment == "SANDBOX",
        "ownership_type": before.get("ownership_type", "PURCHASED"),
        "period_type": fields.period_type or before.get("period_type", "normal"),
        "store": synced.store,
    }
    return {**synced.subscriptions, synced.product_id: told}


def _standing(subscription: Subscription) -> Standing:
    return Standing(subscription.subscription_status, subscription.auto_renew, subscription.billing_issue)


def _written(rows: Mapping[str, Entitlement]) -> dict[str, Any]:
    return {id: row.as_written() for id, row in rows.items() if row.is_active}
