"""Merges what a store reports into the customer: the purchase itself, and what follows from it; and temporary access
while a store cannot be asked about a purchase."""

from collections.abc import Sequence

from msgspec.structs import replace

from latchkey.domain.catalog import Catalog, Product, without_plan
from latchkey.domain.customers.customer import Customer, put_purchase, with_purchase, with_subscription
from latchkey.domain.instants import DAY, LATEST, Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import TEMPORARY_ACCESS, Environment, Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Subscription

# One temporary grant of a product in this time: a receipt that never proves real must not give access day after day.
AGAIN_AFTER: Ms = 30 * DAY


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


def stand_in(
    customer: Customer,
    catalog: Catalog,
    product_ids: Sequence[str],
    now: Ms,
    *,
    store: str,
    id: str,
    app_id: str,
    environment: Environment,
) -> Purchase | None:
    """The temporary grant for the first of these products that grants anything. The running one where there is one;
    None where none may be given. None is for a consumable: a phone that gets access for it does not send it again, and
    never hears that it should use it up."""
    for product_id in product_ids:
        product = catalog.offered(product_id)
        if product is None or not product.grants or product.consumable:
            continue
        earlier = [
            purchase
            for purchase in customer.purchases
            if purchase.kind is PurchaseKind.TEMPORARY
            and purchase.product_id == product.id
            and purchase.purchased_at > now - AGAIN_AFTER
        ]
        running = next((one for one in earlier if (one.access_ends_at or 0) > now), None)
        if earlier:
            return running
        return temporary_grant(product, now, store=store, id=id, environment=environment, app_id=app_id)
    return None


def withdrawn(customer: Customer, store: str, id: str, now: Ms) -> Customer:
    """The store has answered: the temporary grant ends now. Without an event if the customer has the product anyway."""
    given = customer.purchase(store, id)
    if given is None or given.resolved_at is not None or (given.access_ends_at or 0) <= now:
        return customer
    held = [(subscription.current.product_id, subscription.access_ends_at) for subscription in customer.subscriptions]
    held += [
        (purchase.product_id, purchase.access_ends_at or LATEST)
        for purchase in customer.purchases
        if purchase is not given
    ]
    if any(_same_product(bought, given.product_id) and ends_at > now for bought, ends_at in held):
        return put_purchase(customer, replace(given, resolved_at=now))
    return put_purchase(customer, replace(given, revoked_at=now))


def temporary_grant(
    product: Product, now: Ms, *, store: str, id: str, environment: Environment, app_id: str | None
) -> Purchase:
    """Names the product as the catalog does: a base plan that a phone made up must not make it another product."""
    return Purchase(
        kind=PurchaseKind.TEMPORARY,
        store=store,
        id=id,
        product_id=product.id,
        environment=environment,
        app_id=app_id,
        purchased_at=now,
        ends_at=now + TEMPORARY_ACCESS,
        price=Price(0, product.price.currency),
    )
