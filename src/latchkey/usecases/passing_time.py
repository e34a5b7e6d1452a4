"""Time passes: what falls due for a customer, step by step, each at its own instant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from latchkey.domain import customer as customers
from latchkey.domain.catalog import Catalog
from latchkey.domain.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.stores.test_store import billing


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
