"""What a subscription or a purchase has brought in: payments that were not given back, by currency.

The service knows no exchange rates, so amounts of several currencies are never added up.
"""

from __future__ import annotations

from collections import defaultdict

from latchkey.domain.money import Price
from latchkey.domain.purchases.purchase import Ownership, Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Subscription

USD = "USD"
NOTHING = Price(0, USD)


def revenue(bought: Subscription | Purchase) -> tuple[Price, ...]:
    """One amount for each currency in which something was earned; the currency of the latest payment comes first.
    Empty where nothing was earned: in a trial, after a refund, for a grant, and where a family member has paid."""
    if bought.ownership is not Ownership.PURCHASED:
        return ()
    if isinstance(bought, Purchase):
        paid = [bought.price] if bought.kind is PurchaseKind.ONE_TIME and bought.refunded_at is None else []
    else:
        paid = [period.price for period in reversed(bought.periods) if period.refunded_at is None]
    sums: defaultdict[str, int] = defaultdict(int)
    for price in paid:
        if price.micros:
            sums[price.currency] += price.micros
    return tuple(Price(micros, currency) for currency, micros in sums.items())


def headline(amounts: tuple[Price, ...]) -> Price:
    """The one amount to show where there is room for one: in USD if anything was earned in USD or nothing was earned
    at all, otherwise in the currency of the latest payment."""
    in_usd = (one for one in amounts if one.currency == USD)
    return next(in_usd, amounts[0] if amounts else NOTHING)
