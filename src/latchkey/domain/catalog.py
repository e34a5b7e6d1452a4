"""What can be bought and what it grants. Every read looks the mapping up, so changing it changes access at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from latchkey.domain.instants import Duration, Ms
from latchkey.domain.money import Price


class ProductKind(StrEnum):
    SUBSCRIPTION = "subscription"
    ONE_TIME = "one_time"


@dataclass(frozen=True, slots=True)
class Credit:
    """Virtual currency that comes with a purchase."""

    code: str
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    id: str
    kind: ProductKind
    price: Price
    duration: Duration | None = None
    trial: Duration | None = None
    grants: tuple[str, ...] = ()
    credits: Credit | None = None
    # A deleted product stays for its owners: it still grants and renews, but cannot be bought any more.
    on_sale: bool = True


@dataclass(frozen=True, slots=True)
class Former:
    """An entitlement that a product granted until it was detached at this instant."""

    entitlement_id: str
    detached_at: Ms


@dataclass(frozen=True, slots=True)
class Catalog:
    products: Mapping[str, Product] = field(default_factory=dict)
    entitlements: frozenset[str] = frozenset()
    # By test clock, because each has its own current time, and by product. None is real time.
    former: Mapping[str | None, Mapping[str, tuple[Former, ...]]] = field(default_factory=dict)
    # Stores that sell nothing and renew nothing in this project.
    closed_stores: frozenset[str] = frozenset()

    def offered(self, product_id: str) -> Product | None:
        """The product, if it can be bought now."""
        product = self.products.get(product_id)
        return product if product is not None and product.on_sale else None

    def grants(self, product_id: str) -> tuple[str, ...]:
        product = self.products.get(product_id)
        return product.grants if product is not None else ()
