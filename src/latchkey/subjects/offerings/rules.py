from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from latchkey.domain.catalog import Eligibility
from latchkey.domain.instants import Ms
from latchkey.subjects.catalog.rules import Product


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    id: str
    lookup_key: str
    display_name: str
    metadata: Mapping[str, Any] | None
    is_current: bool
    created_at: Ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    id: str
    offering_id: str
    lookup_key: str
    display_name: str
    position: int
    created_at: Ms


@dataclass(frozen=True, slots=True)
class Attached:
    """A product of a package."""

    product: Product
    eligibility: Eligibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    id: str
    display_name: str
    # None: nothing is offered there.
    offering_id: str | None
    is_fallback: bool
    created_at: Ms
