"""What can be bought and what it grants, at which price, and what apps show of it (offerings). Every read looks the
catalog up, so changing it changes access at once."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from latchkey.domain.instants import Duration, Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.money.pinned_rates import NO_TARIFF, Tariff


class ListedPrice(Struct, frozen=True):
    price: Price
    # None: in any store, in any country.
    store: str | None = None
    country: str | None = None

    @property
    def id(self) -> str:
        """How the API names it within its product."""
        return f"{self.store or '-'}.{self.country or '-'}.{self.price.currency}"


def price_for(
    own: Price, listed: Iterable[ListedPrice], *, store: str | None, country: str | None, currency: str | None
) -> Price:
    """What a buyer in this store and country sees, who asked for this currency if it is given. The currency counts
    first, then the country, then the store. A price in another currency than the product's own is for those who asked
    for that currency, or are in its country. Without a fitting one the product's own price counts."""

    def fits(one: ListedPrice) -> bool:
        here = one.store in (None, store) and one.country in (None, country)
        return here and (one.country is not None or one.price.currency in (own.currency, currency))

    def rank(one: ListedPrice) -> tuple[bool, bool, bool, bool, str]:
        code = one.price.currency
        wanted = currency is not None and code == currency
        return wanted, one.country is not None, one.store is not None, code == own.currency, code

    # The product's own price is one for any store and country. A listed one of the same kind replaces it.
    candidates = [*filter(fits, listed), ListedPrice(own)]
    return max(candidates, key=rank).price


class Eligibility(StrEnum):
    """Which SDKs get a product. Old Android SDKs cannot handle base plans, so they may need another product."""

    ALL = "all"
    OLD_GOOGLE_SDK = "google_sdk_lt_6"
    NEW_GOOGLE_SDK = "google_sdk_ge_6"


class PackageProduct(Struct, frozen=True):
    product_id: str
    eligibility: Eligibility = Eligibility.ALL


class Package(Struct, frozen=True):
    """A slot of an offering, such as `$rc_monthly`. It has a product for each app, in the order of attaching."""

    lookup_key: str
    products: tuple[PackageProduct, ...] = ()
    id: str = ""
    offering_id: str = ""
    display_name: str = ""
    position: int = 0
    created_at: Ms = 0


class Offering(Struct, frozen=True, kw_only=True):
    id: str
    lookup_key: str
    display_name: str
    metadata: Mapping[str, Any] | None = None
    is_current: bool = False
    packages: tuple[Package, ...] = ()
    created_at: Ms = 0


class Placement(Struct, frozen=True, kw_only=True):
    """A place in the app that shows an offering of its own, or none."""

    id: str
    offering_id: str | None
    is_fallback: bool = False
    display_name: str = ""
    created_at: Ms = 0


class TargetingRule(Struct, frozen=True, kw_only=True):
    """Shows an offering as the current one to the customers that its conditions match."""

    id: str
    name: str
    offering_id: str
    # In the text form of customer filters, by name. Empty: everybody.
    conditions: Mapping[str, str]
    is_active: bool = True
    # The first rule that matches counts. From 1.
    position: int = 0
    # Grows with each change. SDKs report it with the rule.
    revision: int = 1
    created_at: Ms = 0

    def names(self, entitlement_id: str) -> bool:
        """Whether it is for those who have this entitlement, or for those who do not."""
        return entitlement_id in (self.conditions.get("entitlement"), self.conditions.get("no_entitlement"))


class Offerings(Struct, frozen=True, kw_only=True):
    """All offerings of a project."""

    offerings: tuple[Offering, ...] = ()
    placements: tuple[Placement, ...] = ()
    # In their order.
    targeting: tuple[TargetingRule, ...] = ()
    # By experiment and variant: the offering that the variant's customers see.
    of_variants: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def depend_on_customer(self) -> bool:
        return bool(self.of_variants) or any(rule.is_active for rule in self.targeting)

    @property
    def sell_anything(self) -> bool:
        """Whether any package has a product."""
        return any(package.products for offering in self.offerings for package in offering.packages)


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


class Credit(Struct, frozen=True):
    """Virtual currency that comes with a purchase."""

    code: str
    amount: int


class Product(Struct, frozen=True, kw_only=True):
    id: str
    kind: ProductKind
    price: Price
    # The name for people.
    display_name: str = ""
    duration: Duration | None = None
    trial: Duration | None = None
    grants: tuple[str, ...] = ()
    credits: Credit | None = None
    # None: only the kind is known.
    type: ProductType | None = None
    # The apps in which it is sold; empty means in every app. An app may have been deleted since.
    apps: tuple[str, ...] = ()
    # The first of these that exists, else the project's oldest app. None: the project has no app.
    app_id: str | None = None
    created_at: Ms = 0
    # A deleted product stays for its owners: it still grants and renews, but cannot be bought any more.
    deleted_at: Ms | None = None

    @property
    def on_sale(self) -> bool:
        return self.deleted_at is None

    @property
    def consumable(self) -> bool:
        """Whether it is a one-time purchase that is used up, and can be bought again: its type says so, or, where the
        type leaves it open, it gives virtual currency or nothing that lasts."""
        if self.type in (ProductType.CONSUMABLE, ProductType.NON_CONSUMABLE):
            return self.type is ProductType.CONSUMABLE
        return self.kind is ProductKind.ONE_TIME and (self.credits is not None or not self.grants)


class Former(Struct, frozen=True):
    """An entitlement that a product granted until it was detached at this instant."""

    entitlement_id: str
    detached_at: Ms


class Catalog(Struct, frozen=True):
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


def without_plan(product_id: str) -> str:
    """The product of `product:plan`. Some stores sell a subscription in several base plans."""
    return product_id.partition(":")[0]
