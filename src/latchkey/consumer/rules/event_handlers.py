"""What each event type changes besides the entitlements, which every event syncs: one handler per type.

Pure: a handler gets the record and the event, and returns the record afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from latchkey.consumer.rules.instants import Ms
from latchkey.consumer.rules.received_event import HeldEntitlement, ReceivedEvent
from latchkey.consumer.rules.record import Subscription


class CurrencyTransaction(Struct, frozen=True, kw_only=True):
    event_id: str
    app_user_id: str
    currency: str
    # Credits are positive, debits negative, so that the balance is their sum.
    amount: int | float
    transaction_type: str
    happened_at: Ms


class Enrollment(Struct, frozen=True, kw_only=True):
    app_user_id: str
    experiment_id: str
    variant_id: str
    enrolled_at: Ms


class Invoice(Struct, frozen=True, kw_only=True):
    event_id: str
    app_user_id: str
    issued_at: Ms
    # The whole event, as received.
    body: bytes


class Handling(Struct, frozen=True):
    """The record while an event is processed, and what else follows from the event."""

    subscription: Subscription
    event: ReceivedEvent
    # When it happened; when it arrived, if it does not say.
    at: Ms
    # The entitlements to sync; None if the event does not contain them.
    held: Mapping[str, HeldEntitlement] | None
    # Users who must be read from V2 again.
    reread: frozenset[str] = frozenset()
    transaction: CurrencyTransaction | None = None
    enrollment: Enrollment | None = None
    invoice: Invoice | None = None


Handler = Callable[[Handling], Handling]


def initial_purchase(handling: Handling) -> Handling:
    """Entitlements are added; access begins at once."""
    bought = _period(_settled(handling))
    if handling.event.fields.is_trial_conversion:
        return bought
    return _with(bought, trial_end_at=None)


def renewal(handling: Handling) -> Handling:
    """A new end date; entitlements stay active."""
    return _period(_settled(handling))


def non_renewing_purchase(handling: Handling) -> Handling:
    return _period(handling)


def cancellation(handling: Handling) -> Handling:
    """Access continues until the end; only the cancellation is recorded."""
    return _with(_period(handling), cancelled_at=handling.at, auto_renew=False)


def uncancellation(handling: Handling) -> Handling:
    return _with(_period(handling), cancelled_at=None)


def trial_started(handling: Handling) -> Handling:
    return _with(_period(_settled(handling)), trial_end_at=handling.event.fields.expiration_at_ms)


def trial_cancelled(handling: Handling) -> Handling:
    return _with(_period(handling), cancelled_at=handling.at)


def billing_issue(handling: Handling) -> Handling:
    """Access continues through the grace period, whose end is recorded."""
    carried = [one.grace_period_expires_at for one in (handling.held or {}).values() if one.grace_period_expires_at]
    grace = handling.event.fields.grace_period_expires_at_ms or max(carried, default=None)
    return _with(_period(handling), billing_issue=True, grace_period_expires_at=grace)


def expiration(handling: Handling) -> Handling:
    """The event contains `{}`, or what other purchases still grant. Expiration also ends a billing issue."""
    return _with(_period(handling), billing_issue=False, grace_period_expires_at=None)


def refund(handling: Handling) -> Handling:
    """Access through the refunded product ends now. If the event still contains entitlements, V2 is asked."""
    settled = _with(_period(handling), billing_issue=False, grace_period_expires_at=None)
    if handling.held is None:
        return settled
    refunded = (handling.event.fields.product_id, None)
    kept = {id: one for id, one in handling.held.items() if one.product_id not in refunded}
    doubtful = {handling.event.app_user_id} if len(kept) < len(handling.held) else set()
    return replace(settled, held=kept, reread=frozenset(doubtful))


def refund_reversed(handling: Handling) -> Handling:
    return _period(_settled(handling))


def product_change(handling: Handling) -> Handling:
    changed = _period(handling)
    return _with(changed, product_id=handling.event.fields.new_product_id or changed.subscription.product_id)


def subscription_paused(handling: Handling) -> Handling:
    return _with(_period(handling), auto_renew=False)


def subscription_extended(handling: Handling) -> Handling:
    return _period(handling)


def transfer(handling: Handling) -> Handling:
    """The event belongs to the receiving user. No event says what the source still has, so every id of the source is
    read from V2, and so is every id of the target that the event does not list as the target's."""
    return replace(handling, reread=handling.reread | handling.event.transfer_ids)


def subscriber_alias(handling: Handling) -> Handling:
    """Two customers were merged; the event belongs to the merged one. All ids of both are in `aliases`."""
    return handling


def invoice_issuance(handling: Handling) -> Handling:
    """An invoice does not change access; the whole event is stored for accounting."""
    event = handling.event
    noted = Invoice(
        event_id=event.id, app_user_id=handling.subscription.app_user_id, issued_at=handling.at, body=event.body
    )
    return replace(handling, invoice=noted)


def temporary_entitlement_grant(handling: Handling) -> Handling:
    return _period(handling)


def virtual_currency_transaction(handling: Handling) -> Handling:
    fields = handling.event.fields
    if fields.amount is None or not fields.currency:
        return handling
    kind = fields.transaction_type or ("debit" if fields.amount < 0 else "credit")
    amount = -abs(fields.amount) if kind == "debit" else fields.amount
    noted = CurrencyTransaction(
        event_id=handling.event.id,
        app_user_id=handling.subscription.app_user_id,
        currency=fields.currency,
        amount=amount,
        transaction_type=kind,
        happened_at=handling.at,
    )
    return replace(handling, transaction=noted)


def experiment_enrollment(handling: Handling) -> Handling:
    fields = handling.event.fields
    if not fields.experiment_id or not fields.variant_id:
        return handling
    noted = Enrollment(
        app_user_id=handling.subscription.app_user_id,
        experiment_id=fields.experiment_id,
        variant_id=fields.variant_id,
        enrolled_at=handling.at,
    )
    return replace(handling, enrollment=noted)


def unknown(handling: Handling) -> Handling:
    """The default: new types are logged, and their entitlements synced like any other's."""
    return handling


HANDLERS: Mapping[str, Handler] = {
    "INITIAL_PURCHASE": initial_purchase,
    "RENEWAL": renewal,
    "NON_RENEWING_PURCHASE": non_renewing_purchase,
    "CANCELLATION": cancellation,
    "UNCANCELLATION": uncancellation,
    "TRIAL_STARTED": trial_started,
    "TRIAL_CANCELLED": trial_cancelled,
    "BILLING_ISSUE": billing_issue,
    "EXPIRATION": expiration,
    "REFUND": refund,
    "REFUND_REVERSED": refund_reversed,
    "PRODUCT_CHANGE": product_change,
    "SUBSCRIPTION_PAUSED": subscription_paused,
    "SUBSCRIPTION_EXTENDED": subscription_extended,
    "TRANSFER": transfer,
    "INVOICE_ISSUANCE": invoice_issuance,
    "TEMPORARY_ENTITLEMENT_GRANT": temporary_entitlement_grant,
    "VIRTUAL_CURRENCY_TRANSACTION": virtual_currency_transaction,
    "EXPERIMENT_ENROLLMENT": experiment_enrollment,
    # Not in the specification's list.
    "SUBSCRIBER_ALIAS": subscriber_alias,
}


def handle(subscription: Subscription, event: ReceivedEvent, now: Ms) -> Handling:
    happened = event.fields.event_timestamp_ms
    at = happened if happened is not None else now
    return HANDLERS.get(event.type, unknown)(Handling(subscription, event, at, event.held))


def _period(handling: Handling) -> Handling:
    """The product and period of the event."""
    fields, known = handling.event.fields, handling.subscription
    return _with(
        handling,
        product_id=fields.product_id or known.product_id,
        purchased_at=fields.purchased_at_ms if fields.purchased_at_ms is not None else known.purchased_at,
        store=fields.store or known.store,
    )


def _settled(handling: Handling) -> Handling:
    """Paid, or about to be: clears an earlier cancellation or billing issue."""
    return _with(handling, cancelled_at=None, grace_period_expires_at=None)


def _with(handling: Handling, **changes: object) -> Handling:
    return replace(handling, subscription=replace(handling.subscription, **changes))
