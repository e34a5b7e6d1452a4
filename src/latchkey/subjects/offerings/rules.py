"""What one app shows to one customer: its offerings, with the product of that app in each package."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

from latchkey.domain.catalog import (
    Catalog,
    Eligibility,
    Offering,
    Offerings,
    Package,
    PackageProduct,
    Product,
    ProductKind,
    ProductType,
    TargetingRule,
)
from latchkey.domain.instants import Duration
from latchkey.domain.stores.store import store_of

# From this version on the Android SDK handles base plans.
_NEW_SDK = 6

# The offering of a project without any products in packages.
MADE_UP = "default"
MADE_UP_DESCRIPTION = "Everything on sale"


class HiddenReason(StrEnum):
    """Why an app does not show a product of a package."""

    EMPTY = "No product is attached to it."
    OFF_SALE = "The product was deleted."
    OTHER_APP = "The product is not sold in this app."
    NO_BASE_PLAN = "Google Play sells a subscription by its base plan, so its product needs an id such as pro:monthly."
    BASE_PLAN = "The product is a base plan, which the store of this app does not have."
    OTHER_SDK = "The product is for another version of the SDK."


@dataclass(frozen=True, slots=True)
class AskingApp:
    """The app that asks. All fields are None for a secret key, which belongs to no app."""

    app_id: str | None = None
    store: str | None = None
    # The major version of an Android SDK.
    android_sdk: int | None = None


# As SDKs read a package.
_SDK_NAMES = {"product_id": "platform_product_identifier", "plan_id": "platform_product_plan_identifier"}


class OfferedPackage(Struct, frozen=True, rename=_SDK_NAMES):
    identifier: str
    product_id: str
    # Only where the store has base plans.
    plan_id: str | UnsetType = UNSET


class OfferedOffering(Struct, frozen=True, kw_only=True):
    identifier: str
    description: str
    metadata: dict[str, Any] = field(default_factory=dict)
    packages: list[OfferedPackage]
    # Always null: apps draw their own paywalls.
    paywall_components: None = None


@dataclass(frozen=True, slots=True)
class HiddenProduct:
    """A product that the app does not show, or a package without products."""

    offering: str
    package: str
    product_id: str | None
    reason: HiddenReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Storefront:
    current: str | None
    offerings: tuple[OfferedOffering, ...]
    placements: Mapping[str, str | None]
    fallback: str | None
    left_out: tuple[HiddenProduct, ...] = ()
    # The targeting rule that has chosen the current offering.
    rule: TargetingRule | None = None


class ChosenBy(StrEnum):
    """What has chosen the current offering of a customer. The first that there is counts."""

    OVERRIDE = "override"
    EXPERIMENT = "experiment"
    TARGETING_RULE = "targeting_rule"
    CURRENT_OFFERING = "current_offering"


def storefront(
    catalog: Catalog,
    place: AskingApp,
    override: str | None = None,
    enrolled: Sequence[tuple[str, str]] = (),
    rule: TargetingRule | None = None,
) -> Storefront:
    """What the app shows. `override` is the id of the offering that was assigned to the customer, `enrolled` are the
    experiments and variants of the customer, oldest first, `rule` is the targeting rule that matches. An offering
    without a package for this app is left out; then the next choice for the current offering counts."""
    if not catalog.offerings.sell_anything:
        catalog = _offering_everything(catalog, place)
    shown: dict[str, OfferedOffering] = {}
    left_out: list[HiddenProduct] = []
    for offering in catalog.offerings.offerings:
        packages = list(_packages(catalog, offering, place, left_out))
        if packages:
            shown[offering.id] = OfferedOffering(
                identifier=offering.lookup_key,
                description=offering.display_name,
                metadata=dict(offering.metadata or {}),
                packages=packages,
            )
    possible = (choice for choice in choices(catalog, override, enrolled, rule) if choice[1] in shown)
    by, chosen = next(possible, (None, ""))
    current = shown[chosen].identifier if by is not None else None
    placements, fallback = _placements(catalog, shown, current)
    return Storefront(
        current=current,
        offerings=tuple(shown.values()),
        placements=placements,
        fallback=fallback,
        left_out=tuple(left_out),
        rule=rule if by is ChosenBy.TARGETING_RULE else None,
    )


def choices(
    catalog: Catalog, override: str | None, enrolled: Sequence[tuple[str, str]], rule: TargetingRule | None
) -> Iterator[tuple[ChosenBy, str]]:
    """Ids of offerings, the preferred first. Experiments come before targeting: a rule that is added or changed does
    not change what somebody in an experiment sees."""
    if override is not None:
        yield ChosenBy.OVERRIDE, override
    for enrollment in reversed(enrolled):
        if enrollment in catalog.offerings.of_variants:
            yield ChosenBy.EXPERIMENT, catalog.offerings.of_variants[enrollment]
    if rule is not None:
        yield ChosenBy.TARGETING_RULE, rule.offering_id
    for offering in catalog.offerings.offerings:
        if offering.is_current:
            yield ChosenBy.CURRENT_OFFERING, offering.id


def _placements(
    catalog: Catalog, shown: Mapping[str, OfferedOffering], current: str | None
) -> tuple[dict[str, str | None], str | None]:
    """The offering of each placement: None is 'nothing here'. A placement whose offering this app does not show is left
    out, so that the fallback applies."""
    found: dict[str, str | None] = {}
    fallback = current
    for placement in catalog.offerings.placements:
        if placement.offering_id is not None and placement.offering_id not in shown:
            continue
        offering = shown[placement.offering_id].identifier if placement.offering_id is not None else None
        found[placement.id] = offering
        if placement.is_fallback:
            fallback = offering
    return found, fallback


def _packages(
    catalog: Catalog, offering: Offering, place: AskingApp, left_out: list[HiddenProduct]
) -> Iterable[OfferedPackage]:
    for package in offering.packages:
        chosen = chosen_product(catalog, package, place)
        if chosen is not None:
            yield _shown(package.lookup_key, chosen.id, place)
            continue
        if not package.products:
            left_out.append(HiddenProduct(offering.lookup_key, package.lookup_key, None, HiddenReason.EMPTY))
        for product in package.products:
            reason = why_not(catalog, product, place)
            assert reason is not None, "a product that can be shown was not chosen"
            left_out.append(HiddenProduct(offering.lookup_key, package.lookup_key, product.product_id, reason))


def chosen_product(catalog: Catalog, package: Package, place: AskingApp) -> Product | None:
    """The package's product in this app: one of this app alone before one that is sold in every app, one that has no
    base plan where the store has none, and of several the one that was attached first."""
    fitting = [catalog.products[one.product_id] for one in package.products if why_not(catalog, one, place) is None]
    by_plan = store_of(place.store).shown_by_base_plan
    # `min` keeps the order of attaching among equals.
    return min(fitting, key=lambda one: (not one.apps, _has_plan(one.id) and not by_plan), default=None)


def why_not(catalog: Catalog, one: PackageProduct, place: AskingApp) -> HiddenReason | None:
    """Why the app does not show this product; None if it can."""
    product = catalog.products.get(one.product_id)
    if product is None or not product.on_sale:
        return HiddenReason.OFF_SALE
    if product.apps and place.app_id is not None and place.app_id not in product.apps:
        return HiddenReason.OTHER_APP
    store = store_of(place.store)
    if not store.shown_by_base_plan:
        own = place.app_id is not None and place.app_id in product.apps
        takes_it = own or place.store is None or store.takes_any_product_id
        return HiddenReason.BASE_PLAN if _has_plan(product.id) and not takes_it else None
    new = place.android_sdk is None or place.android_sdk >= _NEW_SDK
    if one.eligibility is (Eligibility.OLD_GOOGLE_SDK if new else Eligibility.NEW_GOOGLE_SDK):
        return HiddenReason.OTHER_SDK
    if new and product.kind is ProductKind.SUBSCRIPTION and not _has_plan(product.id):
        return HiddenReason.NO_BASE_PLAN
    return None


def _offering_everything(catalog: Catalog, place: AskingApp) -> Catalog:
    """With one offering of everything on sale, until a product is attached to a package. So an app that lives off it is
    not left with nothing while an operator sets up the first offering."""
    on_sale = [PackageProduct(product.id) for _, product in sorted(catalog.products.items()) if product.on_sale]
    fitting = [catalog.products[one.product_id] for one in on_sale if why_not(catalog, one, place) is None]
    usual = {product.id: usual_package(product) for product in fitting}
    count = Counter(usual.values())
    names = {id: name for id, name in usual.items() if name is not None and count[name] == 1}
    packages = tuple(Package(names.get(one.product_id, one.product_id), (one,)) for one in on_sale)
    everything = Offering(
        id=MADE_UP, lookup_key=MADE_UP, display_name=MADE_UP_DESCRIPTION, is_current=True, packages=packages
    )
    return replace(catalog, offerings=Offerings(offerings=(everything,)))


_BY_DURATION = {
    Duration(days=7): "$rc_weekly",
    Duration(months=1): "$rc_monthly",
    Duration(months=2): "$rc_two_month",
    Duration(months=3): "$rc_three_month",
    Duration(months=6): "$rc_six_month",
    Duration(months=12): "$rc_annual",
}
LIFETIME = "$rc_lifetime"
# The package ids that have a meaning to the SDKs, such as `offering.monthly`.
USUAL_PACKAGES = (*_BY_DURATION.values(), LIFETIME)


def usual_package(product: Product) -> str | None:
    """The usual id of a package with this product, by its duration."""
    if product.kind is ProductKind.SUBSCRIPTION:
        return _BY_DURATION.get(product.duration) if product.duration is not None else None
    lasts = product.duration is None and not product.consumable
    return LIFETIME if lasts and product.type is not ProductType.NON_RENEWING_SUBSCRIPTION else None


def placed(others: Sequence[str], id: str, position: int) -> list[str]:
    """The ids in their new order. A position behind the end is the end."""
    return [*others[: position - 1], id, *others[position - 1 :]]


def _shown(identifier: str, product_id: str, place: AskingApp) -> OfferedPackage:
    product, _, plan = product_id.partition(":")
    if plan and store_of(place.store).shown_by_base_plan:
        return OfferedPackage(identifier, product, plan)
    return OfferedPackage(identifier, product_id)


def _has_plan(product_id: str) -> bool:
    return ":" in product_id
