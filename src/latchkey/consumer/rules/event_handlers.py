"""What each event type changes besides the entitlements, which every event syncs: one handler per type.

Pure: a handler gets the record and the event, and returns the record afterwards.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from latchkey.consumer.rules.received_event import HeldEntitlement, ReceivedEvent
from latchkey.consumer.rules.record import Subscription
from latchkey.consumer.rules.timestamps import Ms


class CurrencyRow(Struct, frozen=True, kw_only=True):
    event_id: str
    app_user_id: str
    currency: str
    # Credits are positive, debits negative, so that the balance is their sum.
    amount: int | float
    transaction_type: str
    happened_at: Ms


class EnrollmentRow(Struct, frozen=True, kw_only=True):
    app_user_id: str
    experiment_id: str
    variant_id: str
    enrolled_at: Ms


class InvoiceRow(Struct, frozen=True, kw_only=True):
    event_id: str
    app_user_id: str
    issued_at: Ms
    # The whole event, as received.
    body: bytes


class Handling(Struct, frozen=True):
    """The record while an event is processed, and what else follows from the event."""

    subscription: Subscription
    event: ReceivedEvent
    at: Ms
    # The entitlements to sync; None if the event does not contain them.
    held: Mapping[str, HeldEntitlement] | None
    # Users who must be read from V2 again.
    reread: frozenset[str] = frozenset()
    # What the event adds to the app's own data.
    row: CurrencyRow | EnrollmentRow | InvoiceRow | None = None


Handler = Callable[[Handling], Handling]


def unchanged(handling: Handling) -> Handling:
    """Only the entitlements are synced."""
    return handling


def period(handling: Handling) -> Handling:
    """The product and period of the event."""
    fields, known = handling.event.fields, handling.subscription
    return _with(
        handling,
        product_id=fields.product_id or known.product_id,
        purchased_at=fields.purchased_at_ms if fields.purchased_at_ms is not None else known.purchased_at,
        store=fields.store or known.store,
    )


def paid_period(handling: Handling) -> Handling:
    """Paid, or about to be: clears an earlier cancellation or billing issue."""
    return period(_with(handling, cancelled_at=None, grace_period_expires_at=None))


def initial_purchase(handling: Handling) -> Handling:
    """Entitlements are added; access begins at once."""
    bought = paid_period(handling)
    return bought if handling.event.fields.is_trial_conversion else _with(bought, trial_end_at=None)


def cancellation(handling: Handling) -> Handling:
    """Access continues until the end; only the cancellation is recorded."""
    return _with(period(handling), cancelled_at=handling.at)


def uncancellation(handling: Handling) -> Handling:
    return _with(period(handling), cancelled_at=None)


def trial_started(handling: Handling) -> Handling:
    return _with(paid_period(handling), trial_end_at=handling.event.fields.expiration_at_ms)


def subscription_extended(handling: Handling) -> Handling:
    fields = handling.event.fields
    trial = fields.period_type == "trial" and fields.expiration_at_ms is not None
    return period(_with(handling, trial_end_at=fields.expiration_at_ms) if trial else handling)


def billing_issue(handling: Handling) -> Handling:
    """Access continues through the grace period, whose end is recorded."""
    ends = [held.grace_period_expires_at for held in (handling.held or {}).values() if held.grace_period_expires_at]
    grace = handling.event.fields.grace_period_expires_at_ms or max(ends, default=None)
    return _with(period(handling), billing_issue=True, grace_period_expires_at=grace)


def expiration(handling: Handling) -> Handling:
    """The event contains `{}`, or what other purchases still grant. Expiration also ends a billing issue."""
    return _with(period(handling), billing_issue=False, grace_period_expires_at=None)


def refund(handling: Handling) -> Handling:
    """Access through the refunded purchase ends now. If the event still contains entitlements of its product, V2 is
    asked; those that were bought at another time are of another purchase, and stay."""
    ended = expiration(handling)
    if handling.held is None:
        return ended
    fields = handling.event.fields
    doubtful = {id for id, held in handling.held.items() if held.product_id in (fields.product_id, None)}
    kept = {
        id: held
        for id, held in handling.held.items()
        if id not in doubtful or _differ(held.purchase_date, fields.purchased_at_ms)
    }
    return replace(ended, held=kept, reread=frozenset({handling.event.app_user_id} if doubtful else ()))


def _differ(date: Ms | None, at: Ms | None) -> bool:
    """Both are known, and not the same second: a date has whole seconds."""
    return date is not None and at is not None and abs(date - at) >= 1000


def product_change(handling: Handling) -> Handling:
    changed = period(handling)
    return _with(changed, product_id=handling.event.fields.new_product_id or changed.subscription.product_id)


def transfer(handling: Handling) -> Handling:
    """The event belongs to the receiving user. No event says what the source still has, so every id of the source is
    read from V2, and so is every id of the target that the event does not list as the target's."""
    return replace(handling, reread=handling.reread | handling.event.transfer_ids)


def invoice_issuance(handling: Handling) -> Handling:
    """An invoice does not change access; the whole event is stored for accounting."""
    event = handling.event
    noted = InvoiceRow(
        event_id=event.id, app_user_id=handling.subscription.app_user_id, issued_at=handling.at, body=event.body
    )
    return replace(handling, row=noted)


def virtual_currency_transaction(handling: Handling) -> Handling:
    fields = handling.event.fields
    if fields.amount is None or not fields.currency:
        return handling
    kind = fields.transaction_type or ("debit" if fields.amount < 0 else "credit")
    amount = -abs(fields.amount) if kind == "debit" else fields.amount
    noted = CurrencyRow(
        event_id=handling.event.id,
        app_user_id=handling.subscription.app_user_id,
        currency=fields.currency,
        amount=amount,
        transaction_type=kind,
        happened_at=handling.at,
    )
    return replace(handling, row=noted)


def experiment_enrollment(handling: Handling) -> Handling:
    fields = handling.event.fields
    if not fields.experiment_id or not fields.variant_id:
        return handling
    noted = EnrollmentRow(
        app_user_id=handling.subscription.app_user_id,
        experiment_id=fields.experiment_id,
        variant_id=fields.variant_id,
        enrolled_at=handling.at,
    )
    return replace(handling, row=noted)


def _with(handling: Handling, **changes: object) -> Handling:
    return replace(handling, subscription=replace(handling.subscription, **changes))


HANDLERS: Mapping[str, Handler] = {
    "INITIAL_PURCHASE": initial_purchase,
    "RENEWAL": paid_period,
    "NON_RENEWING_PURCHASE": period,
    "CANCELLATION": cancellation,
    "UNCANCELLATION": uncancellation,
    "TRIAL_STARTED": trial_started,
    "TRIAL_CANCELLED": cancellation,
    "BILLING_ISSUE": billing_issue,
    "EXPIRATION": expiration,
    "REFUND": refund,
    "REFUND_REVERSED": paid_period,
    "PRODUCT_CHANGE": product_change,
    "SUBSCRIPTION_PAUSED": period,
    "SUBSCRIPTION_EXTENDED": subscription_extended,
    "TRANSFER": transfer,
    "INVOICE_ISSUANCE": invoice_issuance,
    "TEMPORARY_ENTITLEMENT_GRANT": period,
    "VIRTUAL_CURRENCY_TRANSACTION": virtual_currency_transaction,
    "EXPERIMENT_ENROLLMENT": experiment_enrollment,
    # Not in the specification's list. Two customers were merged; `aliases` of the event has all ids of both.
    "SUBSCRIBER_ALIAS": unchanged,
}


def handle(subscription: Subscription, event: ReceivedEvent, now: Ms) -> Handling:
    """Types without a handler are new: only their entitlements are synced."""
    handling = Handling(subscription, event, event.happened_at(now), event.held)
    return HANDLERS.get(event.type, unchanged)(handling)
