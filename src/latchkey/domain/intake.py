"""Taking in what a store says: the purchase itself, and what it brings along."""

from __future__ import annotations

from dataclasses import replace

from latchkey.domain.catalog import Catalog
from latchkey.domain.currency import move
from latchkey.domain.customer import CurrencyTransaction, Customer, put_purchase, with_purchase, with_subscription
from latchkey.domain.instants import Ms
from latchkey.domain.purchase import Purchase, PurchaseKind
from latchkey.domain.subscription import Subscription


def take_in(customer: Customer, catalog: Catalog, seen: Subscription | Purchase, now: Ms) -> Customer:
    """The customer after a store has told of one of its purchases."""
    if isinstance(seen, Subscription):
        after = with_subscription(customer, seen)
        product_id = seen.periods[-1].product_id
    else:
        after = _with_credits(customer, with_purchase(customer, seen), catalog, seen, now)
        product_id = seen.product_id
        if seen.kind is PurchaseKind.TEMPORARY:
            return after
    return _resolve_temporary_grants(after, product_id, now)


def _with_credits(before: Customer, after: Customer, catalog: Catalog, seen: Purchase, now: Ms) -> Customer:
    """Virtual currency follows the purchase: credited with it, and taken back with a refund as far as it is unspent."""
    product = catalog.products.get(seen.product_id)
    if product is None or product.credits is None:
        return after
    was, purchase = before.purchase(seen.store, seen.id), after.purchase(seen.store, seen.id)
    assert purchase is not None
    holding = was is not None and was.refunded_at is None
    holds = purchase.refunded_at is None
    if holding == holds:
        return after
    code = product.credits.code
    amount = product.credits.amount if holds else -min(product.credits.amount, after.balances.get(code, 0))
    if amount == 0:
        return after
    key = f"{seen.store}:{seen.id}:{len(purchase.money_back)}"
    return move(after, CurrencyTransaction(key, code, amount, now, seen.product_id))


def _resolve_temporary_grants(customer: Customer, product_id: str, now: Ms) -> Customer:
    """The real purchase has arrived: access given meanwhile ends in silence, because the purchase tells the story."""
    for purchase in customer.purchases:
        waiting = purchase.kind is PurchaseKind.TEMPORARY and purchase.resolved_at is None and purchase.expired is None
        if waiting and purchase.product_id == product_id:
            customer = put_purchase(customer, replace(purchase, resolved_at=now))
    return customer
