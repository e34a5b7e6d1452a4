"""Merges what a store reports into the customer: the purchase itself, and what follows from it."""

from msgspec.structs import replace

from latchkey.domain.catalog import without_plan
from latchkey.domain.customers.customer import Customer, put_purchase, with_purchase, with_subscription
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Subscription


def take_in(customer: Customer, seen: Subscription | Purchase, now: Ms) -> Customer:
    """The customer after a store reported a purchase. Virtual currency is handled separately, see `credits`."""
    if isinstance(seen, Subscription):
        return _resolve_temporary_grants(with_subscription(customer, seen), _new_periods(customer, seen), now)
    is_new = customer.purchase(seen.store, seen.id) is None and seen.kind is PurchaseKind.ONE_TIME
    new = ((seen.product_id, seen.ends_at),) if is_new else ()
    return _resolve_temporary_grants(with_purchase(customer, seen), new, now)


def _new_periods(customer: Customer, seen: Subscription) -> tuple[tuple[str, Ms | None], ...]:
    before = customer.subscription(seen.store, seen.id)
    known = {period.id for period in before.periods} if before else set()
    return tuple((period.product_id, period.ends_at) for period in seen.periods if period.id not in known)


def _resolve_temporary_grants(customer: Customer, new: tuple[tuple[str, Ms | None], ...], now: Ms) -> Customer:
    """The real purchase has arrived: the temporary grant ends without an event, because the purchase has its own. Only
    a purchase that was not known before ends the grant (a late report of an old one does not), and only if its time
    overlaps the grant's."""
    for purchase in customer.purchases:
        waiting = purchase.kind is PurchaseKind.TEMPORARY and purchase.resolved_at is None and purchase.expired is None
        real = any(
            _same_product(product_id, purchase.product_id) and (ends_at is None or ends_at > purchase.purchased_at)
            for product_id, ends_at in new
        )
        if waiting and real:
            customer = put_purchase(customer, replace(purchase, resolved_at=now))
    return customer


def _same_product(one: str, other: str) -> bool:
    """With or without a base plan (`product:plan`): a temporary grant is for the product as the catalog names it."""
    return without_plan(one) == without_plan(other)
