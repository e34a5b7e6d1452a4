"""A project's offerings, placements and variants, as part of its catalog."""

from __future__ import annotations

from typing import Any

from latchkey.domain.offering import Offering, Offerings, Package, PackageProduct, Placement
from latchkey.storage.catalog import offerings, packages, placements
from latchkey.storage.experiments import experiments


async def load_offerings(connection: Any, project_id: str) -> Offerings:
    stored = await offerings.page(connection, project_id, None, None)
    packed = await packages.of_offerings(connection, project_id, [offering.id for offering in stored])
    ids = [package.id for found in packed.values() for package in found]
    attached = await packages.products(connection, project_id, ids)

    def package_of(package: packages.Package) -> Package:
        sold = (PackageProduct(one.product.id, one.eligibility) for one in attached[package.id])
        return Package(package.lookup_key, tuple(sold))

    return Offerings(
        offerings=tuple(
            Offering(
                id=offering.id,
                lookup_key=offering.lookup_key,
                display_name=offering.display_name,
                metadata=offering.metadata,
                is_current=offering.is_current,
                packages=tuple(package_of(package) for package in packed[offering.id]),
            )
            for offering in stored
        ),
        placements=tuple(
            Placement(id=placement.id, offering_id=placement.offering_id, is_fallback=placement.is_fallback)
            for placement in await placements.page(connection, project_id, None, None)
        ),
        of_variants={
            (experiment.id, variant.id): variant.offering_id
            for experiment in await experiments.page(connection, project_id, None, None)
            for variant in experiment.variants
            if variant.offering_id is not None
        },
    )
