"""The catalog beside what a store has for sale."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from latchkey.domain.catalog import Catalog, ListedPrice, Product, ProductKind, ProductType
from latchkey.domain.instants import Duration, parse_duration
from latchkey.domain.money.amounts import Price
from latchkey.domain.stores.store_product import StoreProduct
from latchkey.subjects.store_products.rules import Compared, Shelf, compare

APP = "app_1"
STORE = "play_store"
MONTH, YEAR, WEEK = Duration(months=1), Duration(months=12), Duration(days=7)


def usd(amount: float) -> Price:
    return Price(round(amount * 1_000_000), "USD")


def here(id: str = "pro", **terms: Any) -> Product:
    known: dict[str, Any] = {"kind": ProductKind.SUBSCRIPTION, "duration": MONTH, "type": ProductType.SUBSCRIPTION}
    return Product(id=id, **{**known, "price": usd(9.99), **terms})


def there(id: str = "pro", **terms: Any) -> StoreProduct:
    prices = (ListedPrice(usd(9.99), country="US"),)
    sold: dict[str, Any] = {
        "id": id,
        "name": id,
        "type": ProductType.SUBSCRIPTION,
        "duration": MONTH,
        "trial": None,
        "prices": prices,
    }
    return StoreProduct(**sold | terms)


def shelf(*products: Product, listed: dict[str, tuple[ListedPrice, ...]] | None = None) -> Shelf:
    return Shelf(APP, STORE, {one.id: one for one in products}, listed or {})


ONE_TIME: dict[str, Any] = {"kind": ProductKind.ONE_TIME, "duration": None, "type": ProductType.ONE_TIME}
EUROS = ListedPrice(Price(8_990_000, "EUR"), country="DE")
TWO_PRICES = (ListedPrice(usd(9.99), country="US"), EUROS)


@pytest.mark.parametrize(
    ("known", "sold", "status", "fields"),
    [
        pytest.param([], there(), "new", [], id="new"),
        pytest.param([here()], there(), "same", [], id="the same"),
        pytest.param([here(duration=parse_duration("P30D"))], there(), "different", ["duration"], id="30 days"),
        pytest.param([here(duration=None)], there(), "different", ["duration"], id="no duration here"),
        pytest.param([here()], there(duration=None), "same", [], id="the store has no duration"),
        pytest.param([here(price=usd(4.99))], there(), "different", ["price"], id="another price"),
        pytest.param([here(price=Price(9_990_000, "EUR"))], there(), "different", ["price"], id="another currency"),
        pytest.param([here(price=usd(4.99))], there(prices=()), "same", [], id="the store has no price"),
        pytest.param([here(trial=WEEK)], there(), "different", ["trial"], id="a trial only here"),
        pytest.param([here()], there(trial=WEEK), "different", ["trial"], id="a trial only there"),
        pytest.param([here(trial=WEEK)], there(trial=UNSET), "same", [], id="the store leaves trials to the seller"),
        pytest.param([here(trial=parse_duration("P7D"))], there(trial=WEEK), "same", [], id="7 days are a week"),
        pytest.param([here(apps=("app_2",))], there(), "different", ["apps"], id="sold in another app"),
        pytest.param([here(apps=("app_2", APP))], there(), "same", [], id="sold in this app too"),
        pytest.param([here(deleted_at=1)], there(), "deleted", [], id="off sale here"),
        pytest.param([here()], there(on_sale=False), "archived", [], id="archived there"),
        pytest.param([], there(on_sale=False), "off_sale", [], id="archived there, unknown here"),
        pytest.param([here(deleted_at=1)], there(on_sale=False), "off_sale", [], id="off sale on both sides"),
        pytest.param([here(**ONE_TIME)], there(), "impossible", [], id="another kind"),
        pytest.param([], there("gold plan"), "impossible", [], id="an id that the catalog does not take"),
        pytest.param([], there("rc_promo_x"), "impossible", [], id="an id of promotional grants"),
        pytest.param([], there(prices=(ListedPrice(Price(1, "ZZZ")),)), "impossible", [], id="an unknown currency"),
        pytest.param([here()], there("pro:monthly"), "same", [], id="one base plan"),
        pytest.param([here(price=usd(1))], there("pro:monthly"), "different", ["price"], id="another price of it"),
        pytest.param([here(**ONE_TIME)], there("pro:monthly"), "covered", [], id="a base plan of another kind"),
        pytest.param([here()], there("pro:old", on_sale=False), "archived", [], id="its only base plan is archived"),
        pytest.param([here()], there(prices=TWO_PRICES), "same", [], id="a country without a price of its own"),
        pytest.param(
            [here(**ONE_TIME | {"type": ProductType.CONSUMABLE})],
            there(type=ProductType.NON_CONSUMABLE, duration=None),
            "different",
            ["type"],
            id="used up only here",
        ),
        pytest.param(
            [here(**ONE_TIME)],
            there(type=ProductType.CONSUMABLE, duration=None),
            "same",
            [],
            id="only the kind is known",
        ),
    ],
)
def test_the_catalog_and_the_store_differ_in(
    known: list[Product], sold: StoreProduct, status: str, fields: list[str]
) -> None:
    (one,) = compare(shelf(*known), [sold])
    assert (one.status, [difference.field for difference in one.differences]) == (status, fields)
    assert bool(one.reason) is (status == "impossible")


def test_what_only_the_catalog_has_is_named_if_this_app_sells_it() -> None:
    known = [here("a"), here("b", apps=("app_2",)), here("c", deleted_at=1), here("d", apps=(APP,)), here("pro")]
    found = {one.id: one.status for one in compare(shelf(*known), [there("pro:monthly")])}
    assert found == {"a": "missing", "d": "missing", "pro:monthly": "same"}


def test_a_product_that_stands_for_several_plans_is_compared_with_none_of_them() -> None:
    sold = [there("pro:monthly"), there("pro:yearly", duration=YEAR), there("pro:old", on_sale=False)]
    assert [one.status for one in compare(shelf(here()), sold)] == ["covered", "off_sale", "covered"]


def test_the_price_counts_that_buyers_of_this_store_see() -> None:
    listed = (ListedPrice(usd(8.99), store=STORE), replace(EUROS, price=Price(1_000_000, "EUR")))
    seen = shelf(here(), listed={"pro": listed})
    (one,) = compare(seen, [there(prices=TWO_PRICES)])
    assert [(each.field, each.here, each.there) for each in one.differences] == [
        ("price", "$8.99", "$9.99"),
        ("country_prices", "0 the same", "other in DE"),
    ]


def test_a_plan_is_taken_over_with_what_the_product_grants_that_stood_for_it() -> None:
    monthly, _ = compare(shelf(here(grants=("pro", "max"))), [there("pro:monthly"), there("pro:yearly")])
    made = monthly.wanted
    assert made is not None
    assert (made.id, made.grants, made.apps) == ("pro:monthly", ("pro", "max"), (APP,))


def test_a_product_of_other_apps_keeps_its_price_and_this_store_gets_its_own() -> None:
    known = here(price=usd(5), apps=("app_2", APP))
    (one,) = compare(shelf(known), [there()])
    assert (one.wanted, one.prices) == (known, (ListedPrice(usd(9.99), STORE, "US"),))


lengths = st.sampled_from([None, WEEK, MONTH, YEAR])
prices = st.builds(Price, st.integers(0, 3).map(lambda n: n * 990_000), st.sampled_from(["USD", "EUR", "ZZZ"]))
countries = st.sampled_from([None, "US", "DE", "QQ"])
ids = st.sampled_from(["pro", "pro:a", "pro:b", "coins", "an id"])
types = st.sampled_from(list(ProductType))


@st.composite
def products(draw: st.DrawFn) -> Product:
    type = draw(types)
    return Product(
        id=draw(ids.filter(lambda id: " " not in id)),
        kind=type.kind,
        type=type,
        price=draw(prices.filter(lambda price: price.currency != "ZZZ")),
        duration=draw(lengths),
        trial=draw(lengths) if type.kind is ProductKind.SUBSCRIPTION else None,
        grants=draw(st.sampled_from([(), ("pro",), ("max", "pro")])),
        apps=draw(st.sampled_from([(), (APP,), ("app_2",), ("app_2", APP)])),
        deleted_at=draw(st.sampled_from([None, None, 1])),
    )


shelves = st.builds(
    lambda known, listed: shelf(*known, listed={one.id: tuple(listed) for one in known if one.on_sale}),
    st.lists(products(), max_size=4, unique_by=lambda one: one.id),
    st.lists(
        st.builds(
            ListedPrice, prices.filter(lambda price: price.currency != "ZZZ"), st.sampled_from([None, STORE]), countries
        ),
        max_size=3,
        unique_by=lambda one: one.id,
    ),
)
sold_products = st.lists(
    st.builds(
        StoreProduct,
        id=ids,
        name=st.just("Name"),
        type=types,
        on_sale=st.booleans(),
        duration=lengths,
        trial=lengths | st.just(UNSET),
        # By country, or one for all of them.
        prices=st.lists(
            st.builds(ListedPrice, prices, st.none(), countries.filter(bool)),
            max_size=3,
            unique_by=lambda one: one.country,
        ).map(tuple)
        | st.tuples(st.builds(ListedPrice, prices)),
    ),
    max_size=5,
    unique_by=lambda one: one.id,
)


def taken(on: Shelf, one: Compared) -> Shelf:
    """The catalog after a change, as its use cases save it."""
    assert one.wanted is not None
    id = one.wanted.id
    listed = {price.id: price for price in (*on.listed.get(id, ()), *one.prices)}
    return Shelf(APP, STORE, {**on.products, id: one.wanted}, {**on.listed, id: tuple(listed.values())})


@given(on=shelves, sold=sold_products)
def test_taking_over_leaves_no_difference_and_changes_nobodys_access(on: Shelf, sold: list[StoreProduct]) -> None:
    before = Catalog(products=on.products)
    for one in compare(on, sold):
        if one.wanted is not None:
            on = taken(on, one)
    again = [one for one in compare(on, sold) if one.wanted is not None]
    assert {one.status for one in again} <= {"same"}
    assert not any(one.changes for one in again)
    after = Catalog(products=on.products)
    for id in ("pro", "pro:a", "pro:b", "pro:c", "coins"):
        assert after.grants(id) == before.grants(id)
