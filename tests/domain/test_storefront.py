"""What an app shows: the rule as tables, and its properties for any catalog."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from latchkey.domain.catalog import (
    Catalog,
    Eligibility,
    Offering,
    Offerings,
    Package,
    PackageProduct,
    Placement,
    Product,
    ProductKind,
    ProductType,
)
from latchkey.domain.instants import parse_duration
from latchkey.domain.money.amounts import Price
from latchkey.subjects.offerings.rules import AskingApp, HiddenReason, Storefront, storefront, usual_package

APPLE, GOOGLE, TEST = AskingApp("ios", "app_store"), AskingApp("android", "play_store"), AskingApp("demo", "test_store")


def subscription(id: str, *apps: str, duration: str = "P1M") -> Product:
    return Product(
        id=id,
        kind=ProductKind.SUBSCRIPTION,
        price=Price(1_000_000, "USD"),
        duration=parse_duration(duration),
        grants=("pro",),
        apps=tuple(apps),
    )


def one_time(id: str, type: ProductType | None = None, *grants: str) -> Product:
    return Product(id=id, kind=ProductKind.ONE_TIME, price=Price(1, "USD"), type=type, grants=grants)


def selling(*products: Product | str, **more: object) -> Catalog:
    """A catalog with one offering, whose one package has these products."""
    known = {one.id: one for one in products if isinstance(one, Product)}
    package = Package("$rc_monthly", tuple(PackageProduct(one if isinstance(one, str) else one.id) for one in products))
    offering = Offering(id="o1", lookup_key="main", display_name="Main", is_current=True, packages=(package,))
    return Catalog(known, offerings=Offerings(offerings=(offering,)))


def products_shown(catalog: Catalog, place: AskingApp) -> list[str]:
    front = storefront(catalog, place)
    shown = [package for offering in front.offerings for package in offering.packages]
    return [one.product_id + (f"+{one.plan_id}" if one.plan_id else "") for one in shown]


@pytest.mark.parametrize(
    ("products", "apple", "google", "test"),
    [
        # Sold everywhere: Google needs a base plan.
        (("pro",), ["pro"], [], ["pro"]),
        (("pro:monthly",), [], ["pro+monthly"], ["pro:monthly"]),
        (("pro", "pro:monthly"), ["pro"], ["pro+monthly"], ["pro"]),
        (("pro:monthly", "pro"), ["pro"], ["pro+monthly"], ["pro"]),
        # Of one app alone: before one of every app, and nowhere else.
        (("pro", "pro.ios@ios"), ["pro.ios"], [], ["pro"]),
        (("pro.ios@ios", "pro:monthly@android"), ["pro.ios"], ["pro+monthly"], []),
        # The first that was attached.
        (("one", "two"), ["one"], [], ["one"]),
        (("one:a", "two:b"), [], ["one+a"], ["one:a"]),
    ],
)
def test_a_package_shows_the_product_of_the_app(
    products: tuple[str, ...], apple: list[str], google: list[str], test: list[str]
) -> None:
    made = [subscription(*one.split("@")) for one in products]
    catalog = selling(*made)
    assert [products_shown(catalog, place) for place in (APPLE, GOOGLE, TEST)] == [apple, google, test]


def test_a_one_time_product_needs_no_base_plan_at_google() -> None:
    assert products_shown(selling(one_time("coins")), GOOGLE) == ["coins"]


@pytest.mark.parametrize(
    ("product", "place", "reason"),
    [
        (subscription("pro"), GOOGLE, HiddenReason.NO_BASE_PLAN),
        (subscription("pro:monthly"), APPLE, HiddenReason.BASE_PLAN),
        (subscription("pro", "android"), APPLE, HiddenReason.OTHER_APP),
        (replace(subscription("pro"), deleted_at=1), APPLE, HiddenReason.OFF_SALE),
        ("gone", APPLE, HiddenReason.OFF_SALE),
    ],
)
def test_what_is_left_out_has_a_reason(product: Product | str, place: AskingApp, reason: HiddenReason) -> None:
    front = storefront(selling(product), place)
    assert (front.current, front.offerings) == (None, ())
    assert [(one.offering, one.package, one.reason) for one in front.left_out] == [("main", "$rc_monthly", reason)]


def test_an_empty_package_is_left_out() -> None:
    catalog = selling(subscription("pro"))
    (offering,) = catalog.offerings.offerings
    more = replace(offering, packages=(*offering.packages, Package("empty")))
    front = storefront(replace(catalog, offerings=Offerings(offerings=(more,))), APPLE)
    assert [one.identifier for one in front.offerings[0].packages] == ["$rc_monthly"]
    assert [(one.package, one.reason) for one in front.left_out] == [("empty", HiddenReason.EMPTY)]


def offered(**placements: str | None) -> Catalog:
    """Three offerings: one for every app, the current one, and one for Google alone."""
    every, google = subscription("pro"), subscription("pro:monthly", "android")
    packages = {"every": every, "main": every, "google": google}
    made = tuple(
        Offering(
            id=id,
            lookup_key=f"the_{id}",
            display_name=id,
            is_current=id == "main",
            packages=(Package("$rc_monthly", (PackageProduct(product.id),)),),
        )
        for id, product in packages.items()
    )
    return Catalog(
        {every.id: every, google.id: google},
        offerings=Offerings(
            offerings=made,
            placements=tuple(
                Placement(id=id, offering_id=one, is_fallback=id == "fallback") for id, one in placements.items()
            ),
            of_variants={("exp", "a"): "every", ("exp", "b"): "google"},
        ),
    )


@pytest.mark.parametrize(
    ("override", "enrolled", "current"),
    [
        (None, (), "the_main"),
        ("every", (), "the_every"),
        (None, (("exp", "a"),), "the_every"),
        (None, (("exp", "control"),), "the_main"),
        ("main", (("exp", "a"),), "the_main"),
        # This app does not sell it: the next choice counts.
        ("google", (("exp", "a"),), "the_every"),
        ("google", (("exp", "b"),), "the_main"),
        ("deleted", (), "the_main"),
        # The newest enrollment first.
        (None, (("other", "x"), ("exp", "a"), ("exp", "control")), "the_every"),
    ],
)
def test_override_then_variant_then_the_current_offering(
    override: str | None, enrolled: tuple[tuple[str, str], ...], current: str
) -> None:
    assert storefront(offered(), APPLE, override, enrolled).current == current


def test_a_placement_shows_its_offering_or_nothing_or_the_fallback() -> None:
    front = storefront(offered(start="every", silent=None, google="google"), APPLE)
    assert front.placements == {"start": "the_every", "silent": None}
    assert front.fallback == "the_main"
    assert storefront(offered(fallback="every"), APPLE).fallback == "the_every"
    assert storefront(offered(fallback=None), APPLE).fallback is None


@pytest.mark.parametrize(
    ("product", "name"),
    [
        (subscription("x", duration="P1W"), "$rc_weekly"),
        (subscription("x", duration="P7D"), "$rc_weekly"),
        (subscription("x", duration="P1M"), "$rc_monthly"),
        (subscription("x", duration="P2M"), "$rc_two_month"),
        (subscription("x", duration="P3M"), "$rc_three_month"),
        (subscription("x", duration="P6M"), "$rc_six_month"),
        (subscription("x", duration="P1Y"), "$rc_annual"),
        (subscription("x", duration="P12M"), "$rc_annual"),
        (subscription("x", duration="P5D"), None),
        (one_time("x", None, "pro"), "$rc_lifetime"),
        (one_time("x", ProductType.NON_CONSUMABLE), "$rc_lifetime"),
        (one_time("x"), None),
        (one_time("x", ProductType.CONSUMABLE, "pro"), None),
        (one_time("x", ProductType.NON_RENEWING_SUBSCRIPTION, "pro"), None),
    ],
)
def test_the_usual_package_of_a_product(product: Product, name: str | None) -> None:
    assert usual_package(product) == name


# Properties.

APPS = st.sampled_from(["ios", "android", "demo"])
PRODUCTS = st.builds(
    lambda id, once, apps, on_sale: replace(
        one_time(id) if once else subscription(id, *apps), apps=tuple(apps), deleted_at=None if on_sale else 1
    ),
    st.sampled_from(["a", "b", "c", "a:x", "b:y", "d:z"]),
    st.booleans(),
    st.sets(APPS, max_size=2),
    st.booleans(),
)
ENTRIES = st.lists(
    st.builds(
        PackageProduct, st.sampled_from(["a", "b", "c", "a:x", "b:y", "d:z", "gone"]), st.sampled_from(Eligibility)
    ),
    max_size=4,
    unique_by=lambda one: one.product_id,
).map(tuple)
PACKAGES = st.lists(
    st.builds(Package, st.sampled_from(["$rc_monthly", "$rc_annual", "x"]), ENTRIES),
    max_size=3,
    unique_by=lambda one: one.lookup_key,
).map(tuple)
IDS = ["o1", "o2", "o3"]


@st.composite
def catalogs(draw: st.DrawFn) -> Catalog:
    ids = draw(st.lists(st.sampled_from(IDS), max_size=3, unique=True))
    current = draw(st.sampled_from([*IDS, None]))
    made = tuple(
        Offering(id=id, lookup_key=f"k{id}", display_name=id, is_current=id == current, packages=draw(PACKAGES))
        for id in ids
    )
    named = st.sampled_from([*ids, None]) if ids else st.none()
    placements = tuple(
        Placement(id=f"p{at}", offering_id=draw(named), is_fallback=at == 0)
        for at in range(draw(st.integers(min_value=0, max_value=3)))
    )
    return Catalog(
        {one.id: one for one in draw(st.lists(PRODUCTS, max_size=6))},
        offerings=Offerings(
            offerings=made, placements=placements, of_variants={("e", "v"): draw(st.sampled_from(IDS))}
        ),
    )


PLACES = st.builds(
    AskingApp,
    st.sampled_from(["ios", "android", "demo", None]),
    st.sampled_from(["app_store", "play_store", "test_store", None]),
    st.sampled_from([None, 5, 6, 8]),
)


@given(catalogs(), PLACES, st.sampled_from([*IDS, None]), st.sampled_from([(), (("e", "v"),)]))
def test_whatever_the_catalog_an_sdk_can_read_the_answer(
    catalog: Catalog, place: AskingApp, override: str | None, enrolled: tuple[tuple[str, str], ...]
) -> None:
    front = storefront(catalog, place, override, enrolled)
    assert front == storefront(catalog, place, override, enrolled)
    names = [one.identifier for one in front.offerings]
    assert len(set(names)) == len(names)
    # Every name that is mentioned can be found.
    mentioned = {front.current, front.fallback, *front.placements.values()} - {None}
    assert mentioned <= set(names)
    for offering in front.offerings:
        assert offering.packages
        identifiers = [one.identifier for one in offering.packages]
        assert len(set(identifiers)) == len(identifiers)
    _sells_only_what_the_app_sells(catalog, place, front)


def _sells_only_what_the_app_sells(catalog: Catalog, place: AskingApp, front: Storefront) -> None:
    for package in (one for offering in front.offerings for one in offering.packages):
        product = catalog.products[package.product_id + (f":{package.plan_id}" if package.plan_id else "")]
        assert product.on_sale
        assert not product.apps or place.app_id is None or place.app_id in product.apps
        if place.store == "play_store":
            assert ":" not in package.product_id
            if place.android_sdk is None or place.android_sdk >= 6:
                assert package.plan_id or product.kind is ProductKind.ONE_TIME
        else:
            assert package.plan_id is UNSET


@given(catalogs(), PLACES)
def test_every_package_is_shown_or_explained(catalog: Catalog, place: AskingApp) -> None:
    front = storefront(catalog, place)
    if not catalog.offerings.sell_anything:
        return
    shown = {(offering.identifier, one.identifier) for offering in front.offerings for one in offering.packages}
    explained = {(one.offering, one.package) for one in front.left_out}
    every = {(one.lookup_key, each.lookup_key) for one in catalog.offerings.offerings for each in one.packages}
    assert shown | explained == every
    assert not shown & explained
