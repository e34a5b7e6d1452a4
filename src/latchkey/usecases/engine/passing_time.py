"""Time passes: what falls due for a customer, step by step, each at its own instant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import structlog

from latchkey.domain.catalog import Catalog
from latchkey.domain.customers import customer as customers
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.subscription import Subscription
from latchkey.stores.test_store import billing

# How often a store acts by itself in one read. It takes 20 µs each time; a subscription that renews every second, of
# which nobody has written anything down for a week, must not hold up everybody else's reads.
MOST_ACTS = 1000

log = structlog.get_logger("latchkey.reading")


@dataclass(frozen=True, slots=True)
class Step:
    """The customer before and after what happened at one instant."""

    before: Customer
    after: Customer
    at: Ms


def next_due_at(customer: Customer) -> Ms | None:
    """When time alone will next change this customer: an end of access, or the test store acting by itself."""
    dues = [billing.due_at(one) for one in customer.subscriptions]
    dues.append(customers.next_due_at(customer))
    return min((due for due in dues if due is not None), default=None)


def at_present(customer: Customer, catalog: Catalog, now: Ms) -> Customer:
    """The customer as it is now, for a reader: what `steps` would lead to, without the way there."""
    after = customer
    try:
        for subscription in customer.subscriptions:
            acted = _acted(subscription, catalog, now)
            if acted is not subscription:
                after = customers.with_subscription(after, acted)
        return customers.let_time_pass(after, now)
    except Exception:
        # A customer whom the rules cannot carry on is shown as it was written down, as the clock role leaves it.
        log.exception("reading.customer_not_carried_on", project_id=customer.project_id)
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
    while (due := next_due_at(customer)) is not None and due <= until:
        after = _at(customer, catalog, due)
        assert after != customer, f"nothing happened at {due}, though it was due"
        yield Step(customer, after, due)
        customer = after


def _at(customer: Customer, catalog: Catalog, now: Ms) -> Customer:
    """The stores act first: a renewal that is due keeps the access from ending."""
    after = customer
    for subscription in customer.subscriptions:
        after = customers.with_subscription(after, billing.pass_time(subscription, catalog, now))
    return customers.let_time_pass(after, now)
