"""Which entitlements each product grants, for apps that must know it while the service cannot be reached."""

from __future__ import annotations

from latchkey.domain.catalog import Catalog, without_plan
from latchkey.stores.registry import BASE_PLANS
from latchkey.wire.sdk import MappedProduct, ProductEntitlementMapping


def product_entitlement_mapping(catalog: Catalog, store: str | None) -> ProductEntitlementMapping:
    """Deleted products too: their owners keep them. Without a store (a secret key) `product:plan` is split as well."""
    plans = store is None or store in BASE_PLANS
    found: dict[str, MappedProduct] = {}
    for id, product in sorted(catalog.products.items()):
        plan = id.partition(":")[2] if plans else ""
        grants = list(product.grants)
        if plan:
            found[id] = MappedProduct(product_identifier=without_plan(id), base_plan_id=plan, entitlements=grants)
        else:
            found[id] = MappedProduct(product_identifier=id, entitlements=grants)
    return ProductEntitlementMapping(product_entitlement_mapping=found)
