"""Applies the passing of time: what falls due for a customer, step by step, each at its own instant."""

from collections.abc import Iterator

import structlog
from msgspec import Struct

from latchkey.domain.catalog import Catalog
from latchkey.domain.customers import customer as customers_customer
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.stores.test_store import billing

# How many store actions one read computes at most. Each takes 20 µs. A subscription that renews every second and was
# not written for a week must not delay other reads.
MOST_ACTS = 1000
# How many steps a customer takes at one instant at most. Each step covers everything that is due then.
MOST_AT_ONCE = 100

log = structlog.get_logger()


class Step(Struct, frozen=True):
    """The customer before and after one instant."""

    before: Customer
    after: Customer
    at: Ms


def next_due_at(customer: Customer) -> Ms | None:
    """When this customer next changes by itself: access ends, or the test store acts."""
    dues = [billing.due_at(subscription) for subscription in customer.subscriptions]
    dues.append(customers_customer.next_due_at(customer))
    return min((due for due in dues if due is not None), default=None)


def at_present(customer: Customer, catalog: Catalog, now: Ms) -> Customer:
    """The customer as of `now`, for a reader: the result of `steps` without the steps between."""
    after = customer
    try:
        for subscription in customer.subscriptions:
            acted = _acted(subscription, catalog, now)
            if acted is not subscription:
                after = customers_customer.with_subscription(after, acted)
        return customers_customer.let_time_pass(after, now)
    except Exception:
        # A customer on which the rules fail is shown as stored. The clock role leaves it unchanged too.
        log.exception("customer shown as stored", project_id=customer.project_id)
        return customer


def _acted(subscription: Subscription, catalog: Catalog, now: Ms) -> Subscription:
    for _ in range(MOST_ACTS):
        due = billing.due_at(subscription)
        if due is None or due > now:
            break
        subscription = billing.pass_time(subscription, catalog, due)
    return subscription


def steps(customer: Customer, catalog: Catalog, until: Ms) -> Iterator[Step]:
    """Every transition that falls due by `until`, in order."""
    last, at_once = None, 0
    while (due := next_due_at(customer)) is not None and due <= until:
        # Rules that never get past an instant must not stop the whole process.
        last, at_once = due, at_once + 1 if due == last else 0
        assert at_once < MOST_AT_ONCE, f"something is due at {due} again and again"
        after = _at(customer, catalog, due)
        assert after != customer, f"nothing happened at {due}, though it was due"
        yield Step(customer, after, due)
        customer = after


def _at(customer: Customer, catalog: Catalog, now: Ms) -> Customer:
    """The stores act first: a renewal that is due prevents the end of access."""
    after = customer
    for subscription in customer.subscriptions:
        after = customers_customer.with_subscription(after, billing.pass_time(subscription, catalog, now))
    return customers_customer.let_time_pass(after, now)
