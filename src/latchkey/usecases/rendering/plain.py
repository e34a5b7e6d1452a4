"""Customers about whom there is nothing special, which is most of them: one subscription, always to the same product,
without a refund, a failed payment, a pause or any other purchase. Both hot reads render them in one go.

Such a customer's entitlements are those of the last period's product, and end with that period. The general rendering
gives the same answers (a test compares them) and takes twice as long.
"""

from __future__ import annotations

from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer
from latchkey.domain.purchases.subscription import Subscription
from latchkey.stores.registry import BASE_PLANS


def only_subscription(customer: Customer, catalog: Catalog) -> Subscription | None:
    """The subscription of such a customer; None for any other customer."""
    subscriptions = customer.subscriptions
    if len(subscriptions) != 1 or customer.purchases or catalog.former:
        return None
    subscription = subscriptions[0]
    status, periods = subscription.status, subscription.periods
    last = periods[-1]
    if (
        status.grace_ends_at is not None
        or status.billing_issue_at is not None
        or status.pause is not None
        or last.money_back
        or subscription.store in BASE_PLANS
    ):
        return None
    if len(periods) > 1:
        product_id, ends_at = last.product_id, last.ends_at
        for period in periods[:-1]:
            # The access that ends last counts: make sure that it is the last period's.
            if period.product_id != product_id or period.ends_at >= ends_at:
                return None
    return subscription
