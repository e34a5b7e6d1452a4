"""Virtual currency follows the purchase: credited with it, and taken back with a refund as far as it is unspent.

The purchase may have moved to another customer since. What it credited is taken back from whoever was credited.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from latchkey.domain.catalog import Catalog, Credit
from latchkey.domain.customers.currency import move
from latchkey.domain.customers.customer import CurrencyTransaction, Customer, put_purchase
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Purchase, PurchaseKind


def unsettled(before: Customer, after: Customer, catalog: Catalog) -> Iterator[tuple[Purchase, Credit]]:
    """The purchases that were paid, refunded or paid again by this change, and what each credits."""
    if after.purchases == before.purchases:
        return
    for purchase in after.purchases:
        product = catalog.products.get(purchase.product_id) if purchase.kind is PurchaseKind.ONE_TIME else None
        if product is None or product.credits is None:
            continue
        was = before.purchase(purchase.store, purchase.id)
        if (was is not None and was.refunded_at is None) != (purchase.refunded_at is None):
            yield purchase, product.credits


def settle(credited: Customer, purchase: Purchase, credit: Credit, now: Ms) -> tuple[Customer, Purchase]:
    """The customer who was credited, and the purchase, after the credit was given or taken back."""
    # A reversal gives back what the refund took, and no more: what had been spent was never taken.
    owed = credit.amount - purchase.credited
    taken = min(purchase.credited, credited.balances.get(credit.code, 0))
    amount = owed if purchase.refunded_at is None else -taken
    if amount == 0:
        return credited, purchase
    number = len(purchase.money_back)
    movement = CurrencyTransaction(movement_id(purchase, number), credit.code, amount, now, purchase.product_id)
    return move(credited, movement), replace(purchase, credited=purchase.credited + amount)


def settle_own(before: Customer, after: Customer, catalog: Catalog, now: Ms) -> Customer:
    """The customer after every credit of its purchases, none of which was another's before."""
    for purchase, credit in unsettled(before, after, catalog):
        after, settled = settle(after, purchase, credit, now)
        after = put_purchase(after, settled)
    return after


def movement_id(purchase: Purchase, number: int) -> str:
    """Of the credit that follows so many refunds and reversals."""
    return f"{purchase.store}:{purchase.id}:{number}"


def movement_ids(purchase: Purchase) -> list[str]:
    """Of every credit or debit that this purchase may have caused so far."""
    return [movement_id(purchase, number) for number in range(len(purchase.money_back) + 1)]
