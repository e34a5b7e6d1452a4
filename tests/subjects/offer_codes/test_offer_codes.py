"""The offer codes that customers have redeemed: how often, and by whom."""

from typing import Any

from latchkey.domain.customers.intake import take_in
from latchkey.domain.instants import DAY
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.purchases.reconciliation import settle
from latchkey.domain.purchases.subscription import Cause, Moment, Period, PeriodType, Status, Subscription
from latchkey.engine.changes import Change
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.customers.usecases.edits import erase
from tests.dashboard.site import Site
from tests.dashboard.tab import tab
from tests.http.client import NOW, Shop
from tests.http.management import get


async def redeem(
    shop: Shop, who: str, code: str | None, at: int = NOW, *, periods: int = 1, store: str = "app_store", **more: Any
) -> None:
    """A subscription whose first periods have the code."""
    made = tuple(
        Period(
            id=f"{who}-{at}-{number}",
            number=number,
            cause=Cause.RENEWAL if number else Cause.PURCHASE,
            product_id="pro_monthly",
            period_type=PeriodType.INTRO,
            purchased_at=at + number * 30 * DAY,
            ends_at=at + (number + 1) * 30 * DAY,
            as_of=Moment(at),
            price=Price(990_000, "USD"),
            offer_code=code,
        )
        for number in range(periods)
    )
    options = {"environment": Environment.PRODUCTION, "app_id": None} | more
    snapshot = Subscription(store=store, id=f"{who}-{at}", periods=made, status=Status(as_of=Moment(at)), **options)
    await shop.changes.make(
        Change(
            project_id=shop.project_id,
            app_user_id=who,
            apply=lambda at: take_in(at.customer, settle(None, snapshot, at.now), at.now),
            create=True,
        )
    )


async def test_a_code_counts_once_for_each_purchase_whatever_its_periods(shop: Shop) -> None:
    assert (await get(shop, "offer_codes")).json()["items"] == []
    await redeem(shop, "ada", "SPRING", NOW - 60 * DAY, periods=2)
    await redeem(shop, "bob", "SPRING", NOW - DAY)
    await redeem(shop, "bob", "SPRING", NOW - 2 * DAY, store="play_store")
    await redeem(shop, "carl", "SPRING", NOW - 3 * DAY, environment=Environment.SANDBOX)
    await redeem(shop, "dora", None)
    listed = (await get(shop, "offer_codes?limit=2")).json()
    names = [("play_store.production.SPRING", 1), ("app_store.sandbox.SPRING", 1)]
    assert [(one["id"], one["uses"]) for one in listed["items"]] == names
    rest = (await shop.client.get(listed["next_page"])).json()
    assert rest["items"] == [
        {
            "object": "offer_code",
            "id": "app_store.production.SPRING",
            "project_id": shop.project_id,
            "offer_code": "SPRING",
            "store": "app_store",
            "environment": "production",
            "product_ids": ["pro_monthly"],
            "uses": 2,
            "customers": 2,
            "first_used_at": NOW - 60 * DAY,
            "last_used_at": NOW - DAY,
        }
    ]
    assert (await get(shop, "offer_codes?starting_after=none")).status == 404


async def test_pages_stay_in_order_when_codes_are_used_meanwhile(shop: Shop) -> None:
    """The code that was first used last comes first, whichever is used again."""
    for days, code in enumerate(("WINTER", "AUTUMN", "SUMMER", "SPRING"), 1):
        await redeem(shop, "ada", code, NOW - 10 * days * DAY)
    first = (await get(shop, "offer_codes?limit=2")).json()
    await redeem(shop, "bob", "SPRING", NOW - DAY)
    await redeem(shop, "bob", "AUTUMN", NOW)
    second = (await shop.client.get(first["next_page"])).json()
    codes = [one["offer_code"] for one in (*first["items"], *second["items"])]
    assert codes == ["WINTER", "AUTUMN", "SUMMER", "SPRING"]


async def test_events_of_a_purchase_with_a_code_name_it(shop: Shop) -> None:
    await redeem(shop, "ada", "SPRING")
    [event] = (await get(shop, "customers/ada/events")).json()["items"]
    assert (event["type"], event["offer_code"]) == ("INITIAL_PURCHASE", "SPRING")


async def test_the_page_says_who_redeemed_a_code_and_forgets_who_was_erased(site: Site) -> None:
    page = await tab(site, Role.VIEWER, "/catalog/offer-codes")
    assert "No offer code was redeemed yet" in page.text()
    for who in ("ada", "bob"):
        await redeem(site, who, "<b>SPRING & more", NOW - DAY)
    await erase(site.changes, site.project_id, "bob")
    await page.open("/catalog/offer-codes")
    await page.follow("<b>SPRING & more")
    assert "ada" in page.text()
    assert "bob" not in page.text()
    assert "erased customer" in page.text()
    await page.open("/catalog/offer-codes?code=none")
    assert page.status == 404
