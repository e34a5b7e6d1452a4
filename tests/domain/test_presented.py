"""The offering that a purchase was made from."""

from itertools import permutations

import pytest
from msgspec.structs import replace

from latchkey.domain.catalog import Offering, Offerings
from latchkey.domain.events.customer_event import EventType
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.lifecycle import observe
from latchkey.domain.purchases.presented import offering_of, presented
from latchkey.domain.purchases.purchase import Purchase, observe_purchase
from latchkey.domain.purchases.reconciliation import settle
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.stores.test_store import actions
from tests.domain.book import Book
from tests.domain.causes import MONTH_END
from tests.domain.shop import CATALOG, COINS, NOON, PRO_MONTHLY, TEAM_MONTHLY, bought, subscribed

SHELF = replace(
    CATALOG,
    offerings=Offerings(
        offerings=tuple(Offering(id=f"ofrng_{key}", lookup_key=key, display_name=key) for key in ("default", "sale"))
    ),
)


def shown(one: Subscription, offering: str | None = "default", product: str = PRO_MONTHLY.id) -> Subscription:
    seen = presented(one, offering, (product,), SHELF)
    assert isinstance(seen, Subscription)
    return seen


def test_it_is_kept_with_what_was_bought_and_told_with_its_events() -> None:
    book = Book(catalog=SHELF)
    book.take_in(shown(subscribed()))
    book.take_in(presented(bought(COINS), "sale", (COINS.id,), SHELF))
    book.pass_time(MONTH_END)
    assert offering_of(book.subscription) == "default"
    told = {one.wire.type: one.wire.presented_offering_id for one in book.told if one.wire.product_id}
    assert (told[EventType.INITIAL_PURCHASE], told[EventType.NON_RENEWING_PURCHASE]) == ("default", "sale")
    # A renewal belongs to the offering of the first purchase.
    assert (book.last.type, book.last.presented_offering_id) == (EventType.RENEWAL, "default")


@pytest.mark.parametrize(
    ("offering", "product"), [(None, "pro_monthly"), ("nobody's", "pro_monthly"), ("sale", "team")]
)
def test_an_app_cannot_make_offerings_up_nor_name_another_product(offering: str | None, product: str) -> None:
    assert offering_of(shown(subscribed(), offering, product)) is None
    one = bought(COINS)
    assert presented(one, offering, (product,), SHELF) is one


def test_another_product_was_bought_from_another_offering() -> None:
    first = shown(subscribed())
    changed = actions.change_product(first, TEAM_MONTHLY, NOON + DAY, at_renewal=False)
    assert offering_of(changed) is None
    changed = shown(changed, "sale", TEAM_MONTHLY.id)
    assert [offering_of(changed, period) for period in changed.periods] == ["default", "sale"]
    renewed = actions.renew(changed, CATALOG, NOON + 2 * DAY)
    assert [offering_of(renewed, period) for period in renewed.periods] == ["default", "sale", "sale"]


def test_the_order_in_which_apps_and_stores_speak_does_not_matter() -> None:
    by_store = replace(subscribed(), store="app_store")
    renewed = replace(actions.renew(by_store, CATALOG, NOON + DAY), store="app_store")
    told = (by_store, renewed, shown(by_store), shown(by_store, "sale"))
    for settled in (False, True):
        results = set()
        for order in permutations(told):
            known: Subscription | None = None
            for seen in order:
                known = observe(known, settle(known, seen, NOON + DAY) if settled else seen)
            assert known is not None
            results.add(tuple(period.offering for period in known.periods))
        assert results == {("default", None)}


def test_a_store_that_speaks_later_takes_nothing_away() -> None:
    one = bought(COINS)
    claimed = replace(one, offering="sale")
    later = replace(one, told_at=NOON + DAY)
    results: set[Purchase] = {
        observe_purchase(observe_purchase(None, claimed), later),
        replace(observe_purchase(observe_purchase(None, later), claimed), told_at=NOON + DAY),
    }
    assert {one.offering for one in results} == {"sale"}
