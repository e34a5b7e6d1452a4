"""Whether a customer may have an introductory offer, as far as the customer's history says."""

from __future__ import annotations

from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer
from latchkey.domain.purchases.subscription import PeriodType

_INTRODUCTORY = frozenset({PeriodType.TRIAL, PeriodType.INTRO})


def intro_eligible(customer: Customer | None, catalog: Catalog, store: str | None, product_id: str) -> bool | None:
    """None: not known. Stores allow one introductory offer in each group of subscriptions, and the catalog does not
    know the groups: an offer used for another product may or may not count. The store itself decides."""
    if catalog.find(product_id) is None:
        return None
    used = {
        period.product_id
        for subscription in (customer.subscriptions if customer is not None else ())
        if store is None or subscription.store == store
        for period in subscription.periods
        if period.period_type in _INTRODUCTORY
    }
    if product_id in used:
        return False
    return None if used else True
