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

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from latchkey.consumer.rules.customer_snapshot import (
    CustomerSnapshot,
    SubscriptionState,
    V1Details,
    current_subscription,
    latest_end,
    longest_access,
    state_after_event,
)
from latchkey.consumer.rules.event_handlers import Handling, handle
from latchkey.consumer.rules.received_event import HeldEntitlement, ReceivedEvent
from latchkey.consumer.rules.record import Entitlement, LocalCopy, Subscription, email_of, external_user_id
from latchkey.consumer.rules.timestamps import Ms, end_or_none, iso_or_none


class AppliedEvent(Struct, frozen=True):
    copy: LocalCopy
    # False if the event was only recorded: something newer is known, or it does not contain the entitlements.
    synced: bool
    # Users who must be read again from V2.
    reread: frozenset[str]
    handling: Handling


# The fields of a record that describe the purchase which gives access.
_PURCHASE_FIELDS = (
    "product_id", "purchased_at", "expires_at", "cancelled_at", "trial_end_at", "grace_period_expires_at", "store",
    "environment", "subscription_status", "auto_renew", "billing_issue", "is_active", "entitlements",
)  # fmt: skip
# The types that end the access through one purchase. Other purchases may still give some.
_ENDINGS = ("EXPIRATION", "REFUND")
# The types after which V1 shows no missing payment.
_PAYMENTS = ("INITIAL_PURCHASE", "TRIAL_STARTED", "RENEWAL", "REFUND_REVERSED")


def is_late(event: ReceivedEvent, known: Subscription) -> bool:
    """Older than the last event applied to this record: by `sequence`, else by its timestamp."""
    sequence, at = event.fields.sequence, event.fields.event_timestamp_ms
    if sequence is not None and known.last_sequence is not None:
        return sequence < known.last_sequence
    return at is not None and known.last_event_at is not None and at < known.last_event_at


def is_doubtful(event: ReceivedEvent, known: Subscription) -> bool:
    """Not late, but V2 may know something newer: the last snapshot already included this event, or it happened before
    the last event applied, like an event of an erased customer with the same id. Or it came under an older id: if that
    was another customer's before a merge, the numbers say nothing about which of the two is newer."""
    sequence, at = event.fields.sequence, event.fields.event_timestamp_ms
    if event.app_user_id != known.app_user_id:
        return True
    if sequence is not None and known.read_sequence is not None and sequence <= known.read_sequence:
        return True
    return at is not None and known.last_event_at is not None and at < known.last_event_at


def apply_event(copy: LocalCopy, event: ReceivedEvent, now: Ms, others: Sequence[LocalCopy] = ()) -> AppliedEvent:
    """The copy after an event. `copy` is the copy of the event's user id, or of the customer whose alias the id now is.
    `others` are the copies of further ids in the event: they are the same customer, so `copy` replaces them."""
    known = copy.subscription
    if event.held is None or is_late(event, known) or not _is_comparable(event, known):
        # Its entitlements may be older than ours. Currency and enrollments are facts whenever they arrive.
        handling = handle(known, event, now)
        after = replace(copy, subscription=replace(known, stale=True))
        # Each id is read: if an alias is wrong, the service's answer shows it.
        named = {event.app_user_id, known.app_user_id, *(other.subscription.app_user_id for other in others)}
        return AppliedEvent(after, False, handling.reread | named, handling)
    doubtful = is_doubtful(event, known) or any(is_late(event, other.subscription) for other in others)
    copy = reduce(merged_copy, others, copy)
    handling = handle(copy.subscription, event, now)
    assert handling.held is not None
    before = copy.entitlements
    held = {
        id: _fields_told(before.get(id), held, event)
        for id, held in handling.held.items()
        if held.expires_at is None or held.expires_at > now
    }
    rows = _rows(before, held, event.fields.event_timestamp_ms or now)
    synced = _synced(copy.subscription, handling.subscription, rows, event, now)
    reread = handling.reread | ({event.app_user_id, known.app_user_id} if doubtful else set())
    after = LocalCopy(replace(synced, stale=synced.stale or known.app_user_id in reread), rows)
    return AppliedEvent(after, True, reread, handling)


def merged_copy(kept: LocalCopy, other: LocalCopy) -> LocalCopy:
    """One copy of two that are the same customer. The event or the snapshot that names both ids then decides what the
    customer holds."""
    mine, theirs = kept.subscription, other.subscription
    if not theirs.exists:
        return kept
    # The two were numbered separately; the numbers of the kept copy continue.
    own = {"app_user_id": mine.app_user_id, "revision": mine.revision, "stale": mine.stale}
    own |= {"subscriptions": {**theirs.subscriptions, **mine.subscriptions}}
    if not mine.exists:
        uncounted = {"last_sequence": None, "last_event_at": None, "read_sequence": None}
        return LocalCopy(replace(theirs, **own, **uncounted), other.entitlements)
    if mine.is_active or not theirs.is_active:
        return LocalCopy(replace(mine, **own), kept.entitlements)
    bought = {name: getattr(theirs, name) for name in _PURCHASE_FIELDS}
    return LocalCopy(replace(mine, **own, **bought), {**kept.entitlements, **other.entitlements})


def apply_snapshot(copy: LocalCopy, snapshot: CustomerSnapshot, now: Ms) -> LocalCopy:
    """The copy after the service was read. V2 decides what the user holds and until when. The rest of the record is
    overwritten only if that changes whether the user is active."""
    known, details = copy.subscription, snapshot.details
    active = snapshot.held(now)
    held = {id: _fields_read(id, ends_at, details) for id, ends_at in active.items()}
    rows = _rows(copy.entitlements, held, now)
    changes: dict[str, Any] = {}
    if details is not None:
        changes["subscriptions"] = details.subscriptions
    if active:
        changes["expires_at"] = latest_end(active)
    restarted = has_restarted(snapshot, known)
    if restarted:
        changes["last_sequence"] = snapshot.sequence
    if restarted or not known.exists or known.is_active != bool(active):
        changes |= _overwritten(known, snapshot, active)
        if not active and (known.is_active or known.expires_at is not None):
            # Access has ended according to V2, so its end is not in the future.
            changes["expires_at"] = now if known.expires_at is None else min(now, known.expires_at)
    return LocalCopy(
        replace(
            known,
            email=email_of(snapshot.attributes),
            external_user_id=external_user_id(snapshot.attributes, known.app_user_id),
            is_active=bool(active),
            entitlements=_written(rows, now),
            last_revenue_sync_at=now,
            last_updated=now,
            read_sequence=snapshot.sequence,
            stale=False,
            **changes,
        ),
        rows,
    )


def _is_comparable(event: ReceivedEvent, known: Subscription) -> bool:
    """Whether event and record are numbered in one sequence. So is an event under an id that is now an alias, if both
    have numbers: a merged customer continues from the higher one."""
    if event.app_user_id == known.app_user_id:
        return True
    counted = known.last_sequence is not None or known.read_sequence is not None
    return event.fields.sequence is not None and counted


def has_restarted(snapshot: CustomerSnapshot, known: Subscription) -> bool:
    """The service has sent fewer events than we have applied: the customer was erased and created again, or the
    service's database was restored from a backup."""
    sent, applied = snapshot.sequence, known.last_sequence
    return sent is not None and applied is not None and sent < applied


def _overwritten(known: Subscription, snapshot: CustomerSnapshot, active: Mapping[str, Ms | None]) -> dict[str, Any]:
    """The state of the subscription, by V1 if it was read, else as far as V2 knows it."""
    if active and snapshot.details is not None:
        current = current_subscription(snapshot.details, active)
        if current is not None:
            return current
    changes: dict[str, Any] = {"cancelled_at": None} if active else {}
    return changes | asdict(state_after_event(None, bool(active), _state(known)))


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
        entitlements=_written(rows, now),
        environment=fields.environment or handled.environment,
        last_webhook_event_id=event.id,
        last_webhook_event_type=event.type,
        last_updated=now,
        **asdict(state),
        **changes,
    )
    synced = replace(synced, subscriptions=_with_subscription(known, synced, event, now))
    return replace(synced, **_remaining_purchase(synced, ends, event)) if ends and event.type in _ENDINGS else synced


def _remaining_purchase(synced: Subscription, ends: Mapping[str, Ms | None], event: ReceivedEvent) -> dict[str, Any]:
    """One of several purchases has ended: the record describes the one with the longest access. Its state is the
    table's."""
    held = event.held or {}
    current = current_subscription(V1Details(held, synced.subscriptions), ends)
    if current is None:
        longest = held[longest_access(ends)]
        return {"product_id": longest.product_id, "purchased_at": longest.purchase_date}
    return current | asdict(_state(synced))


def _end_after(known: Subscription, ends: Mapping[str, Ms | None], event: ReceivedEvent, now: Ms) -> Ms | None:
    """The end in the event, unless other purchases outlast the one that ended; else the latest end of the
    entitlements."""
    ends_at = _end_in(event, now)
    if ends_at is not None and not (ends and event.type in _ENDINGS):
        return ends_at
    if ends:
        return latest_end(ends)
    if not known.is_active:
        return known.expires_at
    # Access ended with this event.
    at = event.happened_at(now)
    return at if known.expires_at is None else min(at, known.expires_at)


def _end_in(event: ReceivedEvent, now: Ms) -> Ms | None:
    """A refund contains the end of the paid period, and ends access at once."""
    ends_at = event.fields.expiration_at_ms
    return ends_at if ends_at is None or event.type != "REFUND" else min(ends_at, event.happened_at(now))


def _rows(before: Mapping[str, Entitlement], held: Mapping[str, dict[str, Any]], at: Ms) -> dict[str, Entitlement]:
    """All rows set inactive, then each entitlement that is held inserted or updated as active, with these fields."""
    rows = {id: replace(row, is_active=False) for id, row in before.items()}
    for id, fields in held.items():
        known = before.get(id)
        granted_at = known.granted_at if known is not None and known.is_active else at
        rows[id] = replace(known or Entitlement(id), is_active=True, granted_at=granted_at, **fields)
    return rows


def _fields_told(known: Entitlement | None, held: HeldEntitlement, event: ReceivedEvent) -> dict[str, Any]:
    """The event's store is that of its product. An entitlement through another product keeps its own store."""
    if known is not None and held.product_id != event.fields.product_id:
        return asdict(held)
    return {**asdict(held), "store": event.fields.store, "environment": event.fields.environment}


def _fields_read(id: str, ends_at: Ms | None, details: V1Details | None) -> dict[str, Any]:
    written = details.entitlements.get(id) if details is not None else None
    return {**(asdict(written) if written is not None else {}), "expires_at": ends_at}


def _with_subscription(known: Subscription, synced: Subscription, event: ReceivedEvent, now: Ms) -> Mapping[str, Any]:
    """The event's subscription in V1's format. A read of V1 replaces it."""
    fields = event.fields
    if synced.product_id is None or fields.purchased_at_ms is None or fields.expiration_at_ms is None:
        return synced.subscriptions
    before = synced.subscriptions.get(synced.product_id, {})
    grace, cancelled = synced.grace_period_expires_at, synced.cancelled_at
    if known.product_id not in (None, synced.product_id):
        # The record was about another product. Its grace period and its cancellation are not this one's.
        if event.type != "BILLING_ISSUE":
            grace = _grace_of(synced.product_id, event)
        if event.type not in ("CANCELLATION", "TRIAL_CANCELLED"):
            cancelled = None
    # An extension or a cancellation pays for nothing: the issue stays, although the record's status is the table's.
    issue = before.get("billing_issues_detected_at") if event.type not in _PAYMENTS else None
    if event.type == "BILLING_ISSUE" or (issue is None and grace is not None):
        issue = iso_or_none(fields.event_timestamp_ms)
    subscription = {
        "auto_resume_date": iso_or_none(fields.auto_resume_at_ms),
        "billing_issues_detected_at": issue,
        "expires_date": end_or_none(_end_in(event, now), now),
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
    return {**synced.subscriptions, synced.product_id: subscription}


def _grace_of(product_id: str, event: ReceivedEvent) -> Ms | None:
    """The end of a product's grace period, by the entitlements in the event."""
    ends = [held.grace_period_expires_at for held in (event.held or {}).values() if held.product_id == product_id]
    return max((end for end in ends if end is not None), default=None)


def _state(subscription: Subscription) -> SubscriptionState:
    return SubscriptionState(subscription.subscription_status, subscription.auto_renew, subscription.billing_issue)


def _written(rows: Mapping[str, Entitlement], now: Ms) -> dict[str, Any]:
    return {id: row.as_written(now) for id, row in rows.items() if row.is_active}
