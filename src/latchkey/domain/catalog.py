"""What can be bought and what it grants. Every read looks the mapping up, so changing it changes access at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from latchkey.domain.instants import Duration, Ms
from latchkey.domain.money import Price
from latchkey.domain.offering import Offerings
from latchkey.domain.tariff.pinning import NO_TARIFF, Tariff


class ProductKind(StrEnum):
    SUBSCRIPTION = "subscription"
    ONE_TIME = "one_time"


class ProductType(StrEnum):
    """What the store calls it. The kind follows from it: a subscription, or a one-time purchase."""

    SUBSCRIPTION = "subscription"
    ONE_TIME = "one_time"
    CONSUMABLE = "consumable"
    NON_CONSUMABLE = "non_consumable"
    NON_RENEWING_SUBSCRIPTION = "non_renewing_subscription"

    @property
    def kind(self) -> ProductKind:
        return ProductKind.SUBSCRIPTION if self is ProductType.SUBSCRIPTION else ProductKind.ONE_TIME


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
    # The name for people.
    display_name: str = ""
    duration: Duration | None = None
    trial: Duration | None = None
    grants: tuple[str, ...] = ()
    credits: Credit | None = None
    # A deleted product stays for its owners: it still grants and renews, but cannot be bought any more.
    on_sale: bool = True
    # None: only the kind is known.
    type: ProductType | None = None
    # The apps in which it is sold; empty means in every app.
    apps: frozenset[str] = frozenset()

    @property
    def consumable(self) -> bool:
        return is_consumable(self.type, self.credits, self.grants)


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
    # Whether any product has prices beside its own. They are loaded where they are needed.
    lists_prices: bool = False
    # The next event of every customer gets a sequence above this. It grows when the database was restored.
    sequence_floor: int = 0
    # Customer attributes that charts can be broken down by: customers are counted again when one of these changes.
    chart_attributes: tuple[str, ...] = ()
    # What apps show of it.
    offerings: Offerings = field(default_factory=Offerings)
    # Exchange rates, tax and commission, for new payments.
    tariff: Tariff = NO_TARIFF

    def find(self, product_id: str) -> Product | None:
        """The product, deleted or not. One with a base plan (`product:plan`) is found without the plan too, so that a
        catalog need not list every plan."""
        product = self.products.get(product_id)
        return product if product is not None else self.products.get(without_plan(product_id))

    def offered(self, product_id: str) -> Product | None:
        """The product, if it can be bought now."""
        product = self.find(product_id)
        return product if product is not None and product.on_sale else None

    def grants(self, product_id: str) -> tuple[str, ...]:
        # Not `find`: every read asks, and almost every product is listed as it is sold.
        product = self.products.get(product_id)
        if product is None:
            product = self.find(product_id)
        return product.grants if product is not None else ()

    def consumable(self, product_id: str) -> bool:
        """Whether the app should use up a one-time purchase of this product."""
        product = self.find(product_id)
        return product is not None and product.consumable


def is_consumable(type: ProductType | None, credits: Credit | None, grants: Collection[str]) -> bool:
    """Whether a one-time purchase is used up, so that it can be bought again: its type says so, or, where the type
    leaves it open, it gives virtual currency or nothing that lasts."""
    match type:
        case ProductType.CONSUMABLE:
            return True
        case ProductType.NON_CONSUMABLE:
            return False
        case _:
            return credits is not None or not grants


def without_plan(product_id: str) -> str:
    """The product of `product:plan`. Some stores sell a subscription in several base plans."""
    return product_id.partition(":")[0]
