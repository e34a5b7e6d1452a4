"""Temporary access while a store cannot be asked about a purchase: for whom, and how often."""

from collections.abc import Sequence

from msgspec.structs import replace

from latchkey.domain.catalog import Catalog, Product, without_plan
from latchkey.domain.customers.customer import Customer, put_purchase
from latchkey.domain.instants import DAY, LATEST, Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import TEMPORARY_ACCESS, Environment, Purchase, PurchaseKind

# One temporary grant of a product in this time: a receipt that never proves real must not give access day after day.
AGAIN_AFTER: Ms = 30 * DAY


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
    None where none may be given."""
    for product_id in product_ids:
        product = catalog.offered(product_id)
        if product is None or not product.grants:
            continue
        earlier = [
            one
            for one in customer.purchases
            if one.kind is PurchaseKind.TEMPORARY
            and one.product_id == product.id
            and one.purchased_at > now - AGAIN_AFTER
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
    held = [(one.current.product_id, one.access_ends_at) for one in customer.subscriptions]
    held += [(one.product_id, one.access_ends_at or LATEST) for one in customer.purchases if one is not given]
    product_id = without_plan(given.product_id)
    if any(without_plan(bought) == product_id and ends_at > now for bought, ends_at in held):
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
