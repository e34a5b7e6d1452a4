"""Parses a project's offerings, placements and variants as `load_catalog` gives them."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, json

from latchkey.domain.offering import Eligibility, Offering, Offerings, Package, PackageProduct, Placement


class _ProductRow(Struct):
    id: str
    eligibility: Eligibility


class _PackageRow(Struct):
    lookup_key: str
    products: list[_ProductRow]


class _OfferingRow(Struct):
    id: str
    lookup_key: str
    display_name: str
    metadata: dict[str, Any] | None
    is_current: bool
    packages: list[_PackageRow]

    def offering(self) -> Offering:
        packages = (
            Package(one.lookup_key, tuple(PackageProduct(each.id, each.eligibility) for each in one.products))
            for one in self.packages
        )
        return Offering(
            id=self.id,
            lookup_key=self.lookup_key,
            display_name=self.display_name,
            metadata=self.metadata,
            is_current=self.is_current,
            packages=tuple(packages),
        )


class _PlacementRow(Struct):
    id: str
    offering_id: str | None
    is_fallback: bool


class _VariantRow(Struct):
    experiment_id: str
    variant_id: str
    offering_id: str


_OFFERINGS = json.Decoder(list[_OfferingRow])
_PLACEMENTS = json.Decoder(list[_PlacementRow])
_VARIANTS = json.Decoder(list[_VariantRow])


def offerings_of(offerings: bytes, placements: bytes, variants: bytes) -> Offerings:
    return Offerings(
        offerings=tuple(one.offering() for one in _OFFERINGS.decode(offerings)),
        placements=tuple(
            Placement(id=one.id, offering_id=one.offering_id, is_fallback=one.is_fallback)
            for one in _PLACEMENTS.decode(placements)
        ),
        of_variants={(one.experiment_id, one.variant_id): one.offering_id for one in _VARIANTS.decode(variants)},
    )
