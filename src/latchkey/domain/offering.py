"""Offerings: which products an app shows to its users, in packages. `storefront.py` decides what one app sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Eligibility(StrEnum):
    """Which SDKs get a product. Old Android SDKs cannot handle base plans, so they may need another product."""

    ALL = "all"
    OLD_GOOGLE_SDK = "google_sdk_lt_6"
    NEW_GOOGLE_SDK = "google_sdk_ge_6"


@dataclass(frozen=True, slots=True)
class PackageProduct:
    product_id: str
    eligibility: Eligibility = Eligibility.ALL


@dataclass(frozen=True, slots=True)
class Package:
    """A slot of an offering, such as `$rc_monthly`. It has a product for each app, in the order of attaching."""

    lookup_key: str
    products: tuple[PackageProduct, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    id: str
    lookup_key: str
    display_name: str
    metadata: Mapping[str, Any] | None = None
    is_current: bool = False
    packages: tuple[Package, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A place in the app that shows an offering of its own, or none."""

    id: str
    offering_id: str | None
    is_fallback: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Offerings:
    """All offerings of a project."""

    offerings: tuple[Offering, ...] = ()
    placements: tuple[Placement, ...] = ()
    # By experiment and variant: the offering that the variant's customers see.
    of_variants: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def sell_anything(self) -> bool:
        """Whether any package has a product."""
        return any(package.products for offering in self.offerings for package in offering.packages)
