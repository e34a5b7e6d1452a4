"""V1: the offerings an app can show to a user."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

from latchkey.subjects.catalog.wire import Product
from latchkey.subjects.offerings.rules import OfferedOffering
from latchkey.wire.v2 import Page


class Placements(Struct, frozen=True, kw_only=True):
    fallback_offering_id: str | None
    # Null: nothing is offered at this placement.
    offering_ids_by_placement: dict[str, str | None] = field(default_factory=dict)


class AppliedRule(Struct, frozen=True, kw_only=True):
    revision: int
    rule_id: str


class Offerings(Struct, frozen=True, kw_only=True):
    current_offering_id: str | None
    offerings: list[OfferedOffering]
    placements: Placements
    # Only if a targeting rule has chosen the current offering.
    targeting: AppliedRule | UnsetType = UNSET


class PackageProduct(Struct, frozen=True, kw_only=True):
    product: Product
    eligibility_criteria: Literal["all", "google_sdk_lt_6", "google_sdk_ge_6"]


class Package(Struct, frozen=True, kw_only=True):
    object: Literal["package"] = "package"
    id: str
    lookup_key: str
    display_name: str
    # From 1.
    position: int
    created_at: int
    # Only if `expand` asks for it.
    products: Page[PackageProduct] | UnsetType = UNSET


class Offering(Struct, frozen=True, kw_only=True):
    object: Literal["offering"] = "offering"
    id: str
    project_id: str
    lookup_key: str
    display_name: str
    is_current: bool
    created_at: int
    metadata: dict[str, Any] | None
    # Only if `expand` asks for it.
    packages: Page[Package] | UnsetType = UNSET


class Placement(Struct, frozen=True, kw_only=True):
    object: Literal["placement"] = "placement"
    id: str
    project_id: str
    display_name: str
    # Null: nothing is offered there.
    offering_id: str | None
    # Its offering is also shown at places without a placement; without any fallback it is the current offering.
    is_fallback: bool
    created_at: int
