"""What a web page may sell to a customer: not what the customer has already, and a free trial only once."""

from latchkey.domain.catalog import Catalog, Product, ProductKind
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import DAY, Ms, add
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.summary import gives_access


def obfuscated(email: str | None) -> str:
    """An address as its owner recognises it and nobody else learns it: `a***@e***.com`."""
    name, _, host = (email or "").rpartition("@")
    return f"{name[0]}***@{host[0]}***.{host.rpartition('.')[2]}" if name and host else ""


def on_sale(catalog: Catalog, app_id: str, store: str, product_id: str) -> Product | None:
    """The product, if this app sells it. Only ids that the catalog lists count. `Catalog.find` also finds a product by
    an id with another plan after the colon: a page could then ask for any price that the provider has ever had."""
    product = catalog.products.get(product_id)
    if product is None or not product.on_sale or store in catalog.closed_stores:
        return None
    return product if not product.apps or app_id in product.apps else None


def has_already(customer: Customer | None, catalog: Catalog, store: str, product: Product, now: Ms) -> bool:
    """Whether the customer has bought it in this store and has it still. What is used up can be bought again."""
    if customer is None or product.consumable:
        return False
    held = (one for one in customer.bought if one.store == store and gives_access(one, now))
    ids = {one.product_id if isinstance(one, Purchase) else one.current.product_id for one in held}
    return any(catalog.find(id) is product for id in ids)


def trial_days(customer: Customer | None, store: str, product: Product, now: Ms) -> int | None:
    """The length of the free trial that this customer gets with the product. None: none, because the product has none
    or the customer has had a subscription in this store."""
    if product.trial is None or product.kind is not ProductKind.SUBSCRIPTION:
        return None
    if customer is not None and any(subscription.store == store for subscription in customer.subscriptions):
        return None
    return max(1, (add(now, product.trial) - now) // DAY)
