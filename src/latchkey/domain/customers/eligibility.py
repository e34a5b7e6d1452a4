"""Whether a customer may have an introductory offer, as far as the customer's history says; and what a web page may
sell to a customer: not what the customer has already, and a free trial only once."""

from latchkey.domain.catalog import Catalog, Product, ProductKind
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import DAY, Ms, add
from latchkey.domain.purchases.subscription import PeriodType
from latchkey.domain.purchases.summary import gives_access

_INTRODUCTORY = frozenset({PeriodType.TRIAL, PeriodType.INTRO})


def intro_eligible(customer: Customer | None, catalog: Catalog, store: str | None, product_id: str) -> bool | None:
    """None: not known. Stores allow one introductory offer in each group of subscriptions, and the catalog does not
    know the groups: an offer used for another product may or may not count. The store itself decides."""
    if catalog.find(product_id) is None:
        return None
    used = {
        period.product_id
        for subscription in (customer.subscriptions if customer is not None else ())
        if store is None or subscription.store == store
        for period in subscription.periods
        if period.period_type in _INTRODUCTORY
    }
    if product_id in used:
        return False
    return None if used else True


def on_sale(catalog: Catalog, app_id: str, store: str, product_id: str) -> Product | None:
    """The product, if this app sells it. Only ids that the catalog lists count. `Catalog.find` also finds a product by
    an id with another plan after the colon: a page could then ask for any price that the provider has ever had."""
    product = catalog.products.get(product_id)
    if product is None or not product.on_sale or store in catalog.closed_stores:
        return None
    return product if not product.apps or app_id in product.apps else None


def has_already(customer: Customer | None, catalog: Catalog, store: str, product: Product, now: Ms) -> bool:
    """Whether the customer has bought it in this store and has it still. What is used up can be bought again."""
    if customer is None or (product.kind is ProductKind.ONE_TIME and product.consumable):
        return False
    held = {
        one.current.product_id for one in customer.subscriptions if one.store == store and gives_access(one, now)
    } | {one.product_id for one in customer.purchases if one.store == store and gives_access(one, now)}
    return any(catalog.find(id) is product for id in held)


def trial_days(customer: Customer | None, store: str, product: Product, now: Ms) -> int | None:
    """The length of the free trial that this customer gets with the product. None: none, because the product has none
    or the customer has had a subscription in this store."""
    if product.trial is None or product.kind is not ProductKind.SUBSCRIPTION:
        return None
    if customer is not None and any(one.store == store for one in customer.subscriptions):
        return None
    return max(1, (add(now, product.trial) - now) // DAY)
