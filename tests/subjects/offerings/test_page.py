"""Offerings, packages and placements."""

from typing import Any

from latchkey.subjects.accounts.rules import Role
from tests.dashboard.site import Site
from tests.dashboard.tab import tab
from tests.http.doings import app_key
from tests.http.management import get

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>\u202egnp.exe'


async def offered(site: Site, key: str = "") -> Any:
    return (await site.client.get("/v1/subscribers/ada/offerings", key=key or site.public)).json()


async def test_an_offering_is_made_filled_made_current_and_an_app_shows_it(site: Site) -> None:
    page = await tab(site, Role.DEVELOPER, "/catalog/offerings")
    assert "Pro plans" in page.text()
    await page.follow("New offering")
    await page.press("Create offering", {"Lookup key": "sale", "Name": HOSTILE, "Metadata": "red"})
    assert "The metadata is a JSON object" in page.alert
    assert page.value("Name") == HOSTILE
    await page.press("Create offering", {"Metadata": '{"color": "red"}'})
    assert "sale was created" in page.notice
    assert page.heading.startswith(HOSTILE)

    for key, product in (("$rc_annual", "pro_yearly"), ("$rc_monthly", "pro_monthly")):
        await page.press("Add", {"Lookup key": key, "Product": product})
        assert f"{key} was added" in page.notice
    await page.press("Move $rc_monthly up")
    assert "$rc_monthly is number 1 now" in page.notice
    await page.press("Make this the current offering")
    assert "sale is the current offering" in page.notice
    shown = await offered(site)
    assert shown["current_offering_id"] == "sale"
    (sale,) = (one for one in shown["offerings"] if one["identifier"] == "sale")
    assert (sale["description"], sale["metadata"]) == (HOSTILE, {"color": "red"})
    assert [one["identifier"] for one in sale["packages"]] == ["$rc_monthly", "$rc_annual"]

    await page.press("Delete offering", sure=True)
    assert "it is the current offering" in page.alert
    await page.press("Have no current offering")
    assert "There is none now" in page.notice
    await page.press("Save", {"Name": "Sale", "Metadata": ""})
    assert page.heading.startswith("Sale")
    await page.press("Delete offering", sure=True)
    assert "The offering and its packages are deleted" in page.notice
    assert [one["lookup_key"] for one in (await get(site, "offerings")).json()["items"]] == ["default", "team", "coins"]
    await page.follow("Pro plans")
    await page.press("Make this the current offering")
    assert "default is the current offering" in page.notice


async def test_the_page_says_why_an_app_shows_nothing_and_a_base_plan_helps(site: Site) -> None:
    google = await app_key(site, "play_store")
    page = await tab(site, Role.OWNER, "/catalog/offerings")
    assert "Google Play sells a subscription by its base plan" in page.row("An app in play_store")
    await page.open("/catalog/new-product")
    await page.press("Put on sale", {"Id": "team:monthly", "Price": "29.99", "An app in play_store": True})
    assert "team:monthly is on sale" in page.notice

    await page.open("/catalog/packages/pkge_demo_team")
    assert "not shown" in page.text()
    await page.press("Add", {"Product": "team:monthly"})
    assert "team:monthly is in the package now" in page.notice
    assert "not shown" not in page.text()
    (team,) = (one for one in (await offered(site, google))["offerings"] if one["identifier"] == "team")
    assert team["packages"] == [
        {
            "identifier": "$rc_monthly",
            "platform_product_identifier": "team",
            "platform_product_plan_identifier": "monthly",
        }
    ]
    await page.press("Save", {"Name": "By the month"})
    assert page.heading == "By the month"
    await page.press("Remove team:monthly")
    assert "team:monthly is no longer in the package" in page.notice

    # The product's own page says where it is sold.
    await page.open("/catalog/products/team:monthly")
    assert page.ticked("An app in play_store")
    await page.press("Save", {"An app in play_store": False})
    assert (await get(site, "products/team:monthly")).json()["app_ids"] == []
    await page.press("Delete product", sure=True)
    assert "is not sold any more" in page.notice


async def test_a_placement_is_made_changed_and_deleted(site: Site) -> None:
    page = await tab(site, Role.DEVELOPER, "/catalog/placements")
    assert "At the first start" in page.text()
    await page.follow("New placement")
    everywhere = "Also at places that have no placement"
    await page.press("Create placement", {"Id": "shop", "Shows": "coins", everywhere: True})
    assert "shop was created" in page.notice
    shown = (await offered(site))["placements"]
    assert (shown["fallback_offering_id"], shown["offering_ids_by_placement"]["shop"]) == ("coins", "coins")
    await page.follow("shop")
    await page.press("Save", {"Shows": "Nothing is offered there", everywhere: False})
    assert "Saved" in page.notice
    assert (await offered(site))["placements"]["offering_ids_by_placement"]["shop"] is None
    await page.follow("shop")
    await page.press("Delete placement", sure=True)
    assert "shop was deleted" in page.notice


async def test_a_variant_shows_an_offering(site: Site) -> None:
    page = await tab(site, Role.DEVELOPER, "/experiments/new")
    await page.press("Start experiment", {"Name": "Teams first", "Variant 2: Id": "b", "Variant 2: Shows": "team"})
    assert page.heading == "Teams first"
    assert page.value("b") == "ofrng_demo_team"
    await page.press("Save", {"b": "The current offering"})
    assert "Saved" in page.notice
    (made,) = (one for one in (await get(site, "experiments")).json()["items"] if one["name"] == "Teams first")
    assert [one["offering_id"] for one in made["variants"]] == [None, None]
