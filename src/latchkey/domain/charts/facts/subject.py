"""Subjects: what facts belong to. A purchase has its own facts, and a customer has some too.

A purchase's facts stay with it when it gets another owner. The customer's own facts (first seen, first payment, windows
after the first seen day) are stored under the customer's first id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from latchkey.domain.charts.fact import Dimensions, Fact, Kind, Money, plus
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Environment, Purchase, PurchaseKind

# Store and id of a purchase; "" and an app user id for a customer's own facts.
SubjectKey: TypeAlias = tuple[str, str]


class Origin(NamedTuple):
    """Where a subject came from, as it was when the subject was first counted."""

    platform: str = ""
    app_version: str = ""
    country: str = ""


NO_ORIGIN = Origin()


class Issue(NamedTuple):
    """A BILLING_ISSUE event. The state of a customer knows only the latest one."""

    at: Ms
    # Of the period whose renewal failed.
    transaction_id: str
    # Until when the store keeps access open, as the event says. Without it the time after a period that others
    # followed is not known to have been a grace period.
    grace_ends_at: Ms | None = None


class FactBook:
    """The facts of one subject while they are put together. Facts that differ only in quantity and money are added up,
    so no two facts of a subject are alike."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[tuple[Kind, Ms, int, str, Dimensions], Fact] = {}

    def add(self, kind: Kind, at: Ms, n: int, currency: str, quantity: int, money: Money, of: Dimensions) -> None:
        key = kind, at, n, currency, of
        known = self._found.get(key)
        if known is not None:
            quantity, money = known.quantity + quantity, plus(known.money, money)
        # Directly: a customer has dozens of facts, and the class's own constructor takes twice as long.
        self._found[key] = _new(Fact, (kind, at, n, currency, quantity, money, of))

    def facts(self) -> tuple[Fact, ...]:
        return tuple([fact for fact in self._found.values() if fact[4] or any(fact[5])])


_new = tuple.__new__


def counts(purchase: Purchase) -> bool:
    """Grants and temporary access are no purchases."""
    return purchase.kind is PurchaseKind.ONE_TIME


def subjects_of(customer: Customer) -> dict[SubjectKey, str]:
    """All subjects that a customer can have facts in, with the environment of each."""
    return {("", id): environment_of(customer) for id in customer.aliases} | dict(_bought(customer))


def customer_key(customer: Customer) -> SubjectKey:
    """Two customers who are merged keep the first id of the older one, so the other one's facts are replaced by
    none."""
    return "", customer.original_app_user_id


def environment_of(customer: Customer) -> str:
    """The environment of the customer's own facts: the id of the test clock; SANDBOX for somebody who bought there
    only; PRODUCTION for everybody else."""
    if customer.test_clock_id is not None:
        return customer.test_clock_id
    bought = {environment for _, environment in _bought(customer)}
    return Environment.SANDBOX if bought == {Environment.SANDBOX} else Environment.PRODUCTION


def purchase_environment(customer: Customer, environment: Environment) -> str:
    return environment if customer.test_clock_id is None else customer.test_clock_id


def paid_to(customer: Customer) -> dict[SubjectKey, Ms]:
    """When each purchase was last paid for."""
    found = {(one.store, one.id): max(each.purchased_at for each in one.periods) for one in customer.subscriptions}
    return found | {(one.store, one.id): one.purchased_at for one in customer.purchases if counts(one)}


def _bought(customer: Customer) -> Iterator[tuple[SubjectKey, str]]:
    for one in customer.subscriptions:
        yield (one.store, one.id), purchase_environment(customer, one.environment)
    for bought in customer.purchases:
        if counts(bought):
            yield (bought.store, bought.id), purchase_environment(customer, bought.environment)
