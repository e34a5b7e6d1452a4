"""What is left of a purchase whose customer was erased: which of its transactions were ended, and by what.

A signed receipt of before the refund stays valid for ever. Without this, whoever shows it after the erasure would get
access again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import TypeVar

from msgspec.structs import replace

from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import MoneyBack, Purchase, PurchaseKind, Reason
from latchkey.domain.purchases.subscription import Cause, Period, Subscription

B = TypeVar("B", Subscription, Purchase)
# Nothing was taken back from whoever got to the end of what they paid for.
_BY_ITSELF = frozenset({None, Reason.UNSUBSCRIBE, Reason.BILLING_ERROR, Reason.PRICE_INCREASE})


class EndedBy(StrEnum):
    REFUND = "refund"
    # Also the end of family sharing, and a period that an upgrade replaced.
    REVOCATION = "revocation"


@dataclass(frozen=True, slots=True)
class Ending:
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
