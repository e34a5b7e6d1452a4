"""Offerings and packages as V2 shows them; the storefront and the mapping of products as V1 shows them."""

from collections.abc import Mapping, Sequence

from msgspec import UNSET, UnsetType

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


def offering(project_id: str, one: Offering, packages: Page[wire.Package] | UnsetType = UNSET) -> wire.Offering:
    return from_attributes(wire.Offering, one, project_id=project_id, packages=packages)


def package(one: Package, products: Page[wire.PackageProduct] | UnsetType = UNSET) -> wire.Package:
    return from_attributes(wire.Package, one, products=products)


def attached(project_id: str, one: Attached) -> wire.PackageProduct:
    return wire.PackageProduct(product=product(project_id, one.product), eligibility_criteria=one.eligibility.value)


def whole_products(project_id: str, package_id: str, found: Sequence[Attached]) -> Page[wire.PackageProduct]:
    """All products of a package, as the list inside it."""
    path = project_path(project_id, "packages", package_id, "products")
    return Page(items=[attached(project_id, one) for one in found], next_page=None, url=path)


def whole_offerings(
    project_id: str,
    found: Sequence[Offering],
    inside: Mapping[str, Sequence[Package]],
    packages: Sequence[wire.Package],
) -> list[wire.Offering]:
    """Each with the list of its packages, which are named by `inside`."""
    by_id = {one.id: one for one in packages}
    lists = {
        id: Page(
            items=[by_id[one.id] for one in mine],
            next_page=None,
            url=project_path(project_id, "offerings", id, "packages"),
        )
        for id, mine in inside.items()
    }
    return [offering(project_id, one, lists[one.id]) for one in found]


def placement(project_id: str, one: Placement) -> wire.Placement:
    return from_attributes(wire.Placement, one, project_id=project_id)


def storefront(one: Storefront) -> wire.Offerings:
    return wire.Offerings(
        current_offering_id=one.current,
        offerings=[
            wire.OfferedOffering(
                identifier=offering.identifier,
                description=offering.description,
                metadata=dict(offering.metadata),
                packages=[
                    wire.OfferedPackage(
                        identifier=package.identifier,
                        platform_product_identifier=package.product_id,
                        platform_product_plan_identifier=UNSET if package.plan_id is None else package.plan_id,
                    )
                    for package in offering.packages
                ],
            )
            for offering in one.offerings
        ],
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
