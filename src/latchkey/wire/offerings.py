"""V1: the offerings an app can show to a user."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType, field


class Package(Struct, frozen=True, kw_only=True):
    identifier: str
    platform_product_identifier: str
    # Only where the store has base plans.
    platform_product_plan_identifier: str | UnsetType = UNSET


class Offering(Struct, frozen=True, kw_only=True):
    identifier: str
    description: str
    metadata: dict[str, Any] = field(default_factory=dict)
    packages: list[Package]
    # Always null: apps draw their own paywalls.
    paywall_components: None = None


class Placements(Struct, frozen=True, kw_only=True):
    fallback_offering_id: str | None
    # Null: nothing is offered at this placement.
    offering_ids_by_placement: dict[str, str | None] = field(default_factory=dict)


class Offerings(Struct, frozen=True, kw_only=True):
    current_offering_id: str | None
    offerings: list[Offering]
    placements: Placements
