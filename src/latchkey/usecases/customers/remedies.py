"""What an operator can do about each purchase of a customer; `usecases/ledger/acting.py` does it."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Subscription
from latchkey.storage.customers.records import PurchaseKey
from latchkey.stores.registry import Store, store_of


@dataclass(frozen=True, slots=True)
class Remedies:
    refund: bool = False
    cancel: bool = False
    extend: bool = False
    # Whether a promotional grant can be revoked or extended.
    revoke: bool = False
    # The store to use instead, where it takes no orders from Latchkey.
    elsewhere: Store | None = None


def remedies(customer: Customer, now: Ms) -> dict[PurchaseKey, Remedies]:
    """For every purchase and grant of this customer, by store and id."""
    found = {(one.store, one.id): _of_subscription(one, now) for one in customer.subscriptions}
    return found | {(one.store, one.id): _of_purchase(one, now) for one in customer.purchases}


def _of_subscription(one: Subscription, now: Ms) -> Remedies:
    store = store_of(one.store)
    if not store.takes_orders:
        return Remedies(elsewhere=store)
    runs = one.access_ends_at > now
    refund = one.current.price.micros > 0 and one.current.refunded_at is None
    return Remedies(refund=refund, cancel=runs and one.status.goes_on, extend=runs)


def _of_purchase(one: Purchase, now: Ms) -> Remedies:
    runs = one.access_ends_at is None or one.access_ends_at > now
    if one.kind is not PurchaseKind.ONE_TIME:
        return Remedies(revoke=runs and one.kind is PurchaseKind.PROMOTIONAL)
    store = store_of(one.store)
    return Remedies(refund=one.refunded_at is None) if store.takes_orders else Remedies(elsewhere=store)
