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
        return _resolve_temporary_grants(with_subscription(customer, seen), _new_periods(customer, seen), now)
    after = _with_credits(customer, with_purchase(customer, seen), catalog, seen, now)
    new = customer.purchase(seen.store, seen.id) is None and seen.kind is PurchaseKind.ONE_TIME
    return _resolve_temporary_grants(after, ((seen.product_id, seen.ends_at),) if new else (), now)


def _new_periods(customer: Customer, seen: Subscription) -> tuple[tuple[str, Ms | None], ...]:
    before = customer.subscription(seen.store, seen.id)
    known = {period.id for period in before.periods} if before else set()
    return tuple((period.product_id, period.ends_at) for period in seen.periods if period.id not in known)


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
    # A reversal gives back what the refund took, and no more: what had been spent was never taken.
    owed = product.credits.amount - purchase.credited
    amount = owed if holds else -min(purchase.credited, after.balances.get(code, 0))
    if amount == 0:
        return after
    key = f"{seen.store}:{seen.id}:{len(purchase.money_back)}"
    after = put_purchase(after, replace(purchase, credited=purchase.credited + amount))
    return move(after, CurrencyTransaction(key, code, amount, now, seen.product_id))


def _resolve_temporary_grants(customer: Customer, new: tuple[tuple[str, Ms | None], ...], now: Ms) -> Customer:
    """The real purchase has arrived: access given meanwhile ends in silence, because the purchase tells the story.
    It is one that was not known before (a late word about an old purchase settles nothing) and that reaches into the
    time of the grant."""
    for purchase in customer.purchases:
        waiting = purchase.kind is PurchaseKind.TEMPORARY and purchase.resolved_at is None and purchase.expired is None
        real = any(
            product_id == purchase.product_id and (ends_at is None or ends_at > purchase.purchased_at)
            for product_id, ends_at in new
        )
        if waiting and real:
            customer = put_purchase(customer, replace(purchase, resolved_at=now))
    return customer
