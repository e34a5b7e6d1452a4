"""Subscriptions of Stripe that a file knows only by their item (`si_…`), beside what Stripe has told already."""

from __future__ import annotations

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import HOUR
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.settling import IMPORTED
from latchkey.domain.purchases.subscription import Subscription


def is_known_by_another_id(customer: Customer, seen: Subscription | Purchase) -> bool:
    """Whether Stripe has told of this subscription by its own id: one of its periods begins when a known one begins.
    Stripe's invoices tell more than the file, so nothing is lost."""
    if isinstance(seen, Purchase) or not seen.id.startswith(IMPORTED):
        return False
    begun = [
        period.purchased_at
        for known in customer.subscriptions
        if known.store == seen.store and not known.id.startswith(IMPORTED)
        for period in known.periods
    ]
    return any(abs(period.purchased_at - at) <= HOUR for period in seen.periods for at in begun)
