"""State changes of a subscription: `observe` merges a store's report, `tick` applies the passing of time."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.instants import HOUR, Ms
from latchkey.domain.purchases.purchase import (
    Expired,
    MoneyBack,
    Purchase,
    PurchaseKind,
    Reason,
    merge_facts,
    merge_parts,
    same_offering,
)
from latchkey.domain.purchases.subscription import Cause, Invoice, Period, Subscription

# Stores report a renewal with some delay. The expiration event of a renewing subscription waits this long for the
# report. Access itself ends at `expires_date` in any case.
RENEWAL_LEEWAY: Ms = 6 * HOUR


def observe(before: Subscription | None, seen: Subscription) -> Subscription:
    """Periods, refunds and invoices only accumulate; for the status, and for the end of a period, the newest moment
    wins. So the result does not depend on the order or the number of times in which snapshots arrive."""
    if before is None:
        periods = tuple(_merge_period(None, period) for period in seen.periods)
        return replace(seen, periods=_in_order(periods), invoices=tuple(sorted(seen.invoices, key=_invoice_order)))
    known = {period.id: period for period in before.periods}
    for period in seen.periods:
        known[period.id] = _merge_period(known.get(period.id), period)
    invoices = {invoice.id: invoice for invoice in (*seen.invoices, *before.invoices)}
    newer = seen.status.as_of > before.status.as_of
    after = replace(
        before,
        periods=_in_order(tuple(known.values())),
        invoices=tuple(sorted(invoices.values(), key=_invoice_order)),
        status=seen.status if newer else before.status,
        ownership=seen.ownership if newer else before.ownership,
    )
    return replace(after, expired=None) if _overtaken(before, after) else after


def tick(subscription: Subscription, now: Ms) -> Subscription:
    """Mark the end of access, if it passed by `now`."""
    due, end = due_at(subscription), _ends_at(subscription)
    if due is None or end is None or due > now:
        return subscription
    return replace(subscription, expired=Expired(subscription.current.id, end, end_reason(subscription)))


def due_at(subscription: Subscription) -> Ms | None:
    """When `tick` will next change this subscription, if it ever will."""
    end = _ends_at(subscription)
    if end is None or subscription.expired is not None:
        return None
    return end + RENEWAL_LEEWAY if awaits_renewal(subscription) else end


def _ends_at(subscription: Subscription) -> Ms | None:
    """When access ends with an expiration event. If a refund ended it, there is none: the refund has its own. After the
    refund of an early renewal the period before it may still run."""
    end = subscription.access_ends_at
    if not subscription.cut_short:
        return end
    earlier = max((period.access_ends_at for period in subscription.periods[:-1]), default=end)
    return earlier if earlier > end else None


def awaits_renewal(subscription: Subscription) -> bool:
    """Whether only the silence of its store ends it."""
    status = subscription.status
    return status.goes_on and status.billing_issue_at is None and status.pause is None


def end_reason(subscription: Subscription) -> Reason:
    """Why no period followed the current one."""
    status = subscription.status
    if status.ended is not None:
        return status.ended
    # If renewal is turned off after a failed payment has already ended access, the payment is the reason.
    lost = status.billing_issue_at is not None and (status.renewal_off_at or 0) > subscription.access_ends_at
    if not status.auto_renew and not lost:
        return status.renewal_off_reason or Reason.UNSUBSCRIBE
    if status.billing_issue_at is not None:
        return Reason.BILLING_ERROR
    return Reason.SUBSCRIPTION_PAUSED if status.pause is not None else Reason.UNKNOWN


def _overtaken(before: Subscription, after: Subscription) -> bool:
    """Whether a marked expiration rests on facts that have changed. It is then decided again. The same expiration has
    the same event id and is not emitted twice, but its reason may change, or it may not be due yet."""
    return after.status != before.status or after.current.id != before.current.id or _ends_at(after) != _ends_at(before)


def _merge_period(known: Period | None, seen: Period) -> Period:
    if known is None:
        parts = seen.parts_told
        return seen if parts == seen.parts_back else replace(seen, parts_back=parts)
    newest = seen if seen.as_of > known.as_of else known
    return replace(
        newest,
        money_back=merge_facts(known.money_back, seen.money_back),
        parts_back=merge_parts(*known.parts_told, *seen.parts_told),
        # The first known value stays.
        country=known.country if known.country is not None else seen.country,
        terms=known.terms if known.terms is not None else seen.terms,
        offering=same_offering(known.offering, seen.offering),
        offer_code=known.offer_code if known.offer_code is not None else seen.offer_code,
    )


def _in_order(periods: tuple[Period, ...]) -> tuple[Period, ...]:
    return tuple(sorted(periods, key=lambda period: period.order))


def _invoice_order(invoice: Invoice) -> tuple[Ms, str]:
    return invoice.issued_at, invoice.id


B = TypeVar("B", Subscription, Purchase)
# Nothing was taken back from whoever got to the end of what they paid for.
_BY_ITSELF = frozenset({None, Reason.UNSUBSCRIBE, Reason.BILLING_ERROR, Reason.PRICE_INCREASE})


class EndedBy(StrEnum):
    REFUND = "refund"
    # Also the end of family sharing, and a period that an upgrade replaced.
    REVOCATION = "revocation"


class Ending(Struct, frozen=True):
    """What is left of a purchase whose customer was erased: which of its transactions were ended, and by what."""

    transaction_id: str
    ended_by: EndedBy
    at: Ms
    # As of when the store said so. A later word of the store counts more: a refund may be reversed.
    told_at: Ms


def endings(bought: Subscription | Purchase) -> tuple[Ending, ...]:
    return tuple(_of_purchase(bought) if isinstance(bought, Purchase) else _of_subscription(bought))


def still_ended(bought: B, known: Sequence[Ending]) -> B:
    """The purchase, as a receipt tells it, with the ends that the store has told since."""
    by_id = {one.transaction_id: one for one in known}
    if isinstance(bought, Subscription):
        return replace(bought, periods=tuple(_ended(period, by_id.get(period.id)) for period in bought.periods))
    ending = by_id.get(bought.id)
    if ending is None or (bought.told_at or 0) > ending.told_at:
        return bought
    if ending.ended_by is EndedBy.REFUND:
        return replace(bought, money_back=(MoneyBack(ending.at),))
    return replace(bought, revoked_at=ending.at)


def _ended(period: Period, ending: Ending | None) -> Period:
    if ending is None or period.as_of.at > ending.told_at:
        return period
    if ending.ended_by is EndedBy.REFUND:
        return replace(period, money_back=(MoneyBack(ending.at),))
    return replace(period, ends_at=min(period.ends_at, ending.at))


def _of_purchase(purchase: Purchase) -> Iterator[Ending]:
    told_at = purchase.told_at or 0
    if purchase.kind is not PurchaseKind.ONE_TIME:
        return
    if purchase.refunded_at is not None:
        yield Ending(purchase.id, EndedBy.REFUND, purchase.refunded_at, told_at)
    elif purchase.revoked_at is not None:
        yield Ending(purchase.id, EndedBy.REVOCATION, purchase.revoked_at, told_at)


def _of_subscription(subscription: Subscription) -> Iterator[Ending]:
    taken_back = subscription.status.ended not in _BY_ITSELF
    for period, following in zip_longest(subscription.periods, subscription.periods[1:]):
        if period.refunded_at is not None:
            yield Ending(period.id, EndedBy.REFUND, period.refunded_at, period.as_of.at)
        elif taken_back if following is None else following.cause is Cause.CHANGE:
            yield Ending(period.id, EndedBy.REVOCATION, period.ends_at, period.as_of.at)
