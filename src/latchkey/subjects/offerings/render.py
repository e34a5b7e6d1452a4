"""Offerings and packages as V2 shows them; the storefront and the mapping of products as V1 shows them."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar

from msgspec import UNSET

from latchkey.domain.catalog import Catalog, Offering, Package, Placement, without_plan
from latchkey.domain.stores.store import BASE_PLANS
from latchkey.engine.storage.catalog.offering_rows import Attached
from latchkey.subjects.catalog.render import product
from latchkey.subjects.offerings import wire
from latchkey.subjects.offerings.rules import Storefront
from latchkey.subjects.purchase_intake.wire import MappedProduct, ProductEntitlementMapping
from latchkey.wire.attributes import from_attributes
from latchkey.wire.paging import project_path
from latchkey.wire.v2 import Page

Item = TypeVar("Item")

# By package, where they are shown.
Products: TypeAlias = Mapping[str, Sequence[Attached]] | None


def offering(
    project_id: str, one: Offering, packages: Sequence[Package] | None = None, products: Products = None
) -> wire.Offering:
    """With all its packages, if they are given."""
    items = [package(project_id, each, products) for each in packages or ()]
    inside = UNSET if packages is None else _all(items, project_id, "offerings", one.id, "packages")
    return from_attributes(wire.Offering, one, project_id=project_id, packages=inside)


def package(project_id: str, one: Package, products: Products = None) -> wire.Package:
    items = [attached(project_id, each) for each in (products or {}).get(one.id, ())]
    inside = UNSET if products is None else _all(items, project_id, "packages", one.id, "products")
    return from_attributes(wire.Package, one, products=inside)


def _all(items: list[Item], *path: str) -> Page[Item]:
    return Page(items=items, next_page=None, url=project_path(*path))


def attached(project_id: str, one: Attached) -> wire.PackageProduct:
    return wire.PackageProduct(product=product(project_id, one.product), eligibility_criteria=one.eligibility.value)


def placement(project_id: str, one: Placement) -> wire.Placement:
    return from_attributes(wire.Placement, one, project_id=project_id)


def storefront(one: Storefront) -> wire.Offerings:
    return wire.Offerings(
        current_offering_id=one.current,
        offerings=list(one.offerings),
        placements=wire.Placements(fallback_offering_id=one.fallback, offering_ids_by_placement=dict(one.placements)),
        targeting=UNSET if one.rule is None else wire.AppliedRule(revision=one.rule.revision, rule_id=one.rule.id),
    )


def product_entitlement_mapping(catalog: Catalog, store: str | None) -> ProductEntitlementMapping:
    """Deleted products too: their owners keep them. Without a store (a secret key) `product:plan` is split as well."""
    plans = store is None or store in BASE_PLANS
    found: dict[str, MappedProduct] = {}
    for id, sold in sorted(catalog.products.items()):
        plan = id.partition(":")[2] if plans else ""
        named = {"product_identifier": without_plan(id), "base_plan_id": plan} if plan else {"product_identifier": id}
        found[id] = MappedProduct(**named, entitlements=list(sold.grants))
    return ProductEntitlementMapping(product_entitlement_mapping=found)
