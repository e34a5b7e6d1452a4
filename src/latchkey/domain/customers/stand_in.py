"""Temporary access while a store cannot be asked about a purchase: for whom, and how often."""

from __future__ import annotations

from collections.abc import Sequence

from latchkey.domain.catalog import Catalog, Product
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.money import Price
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
