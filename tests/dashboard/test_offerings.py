"""Offerings, packages and placements in a browser."""

from __future__ import annotations

from typing import Any

from playwright.async_api import expect

from tests.api.doings import app_key
from tests.api.management import get
from tests.dashboard.site import Site, Visitor, serious_findings

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>\u202egnp.exe'


async def offered(site: Site, key: str = "") -> Any:
    return (await site.client.get("/v1/subscribers/ada/offerings", key=key or site.public)).json()


async def test_an_offering_is_made_filled_made_current_and_an_app_shows_it(site: Site, developer: Visitor) -> None:
    page = await developer.open("/catalog/offerings")
    await expect(page.get_by_role("link", name="Pro plans")).to_be_visible()
    assert await serious_findings(page) == []
    await page.get_by_role("link", name="New offering").click()
    assert await serious_findings(page) == []
    await page.get_by_label("Lookup key").fill("sale")
    await page.get_by_label("Name").fill(HOSTILE)
    await page.get_by_label("Metadata").fill("red")
    await page.get_by_role("button", name="Make it").click()
    await expect(page.get_by_role("alert")).to_contain_text("The metadata is a JSON object")
    await expect(page.get_by_label("Name")).to_have_value(HOSTILE)
    await page.get_by_label("Metadata").fill('{"color": "red"}')
    await page.get_by_role("button", name="Make it").click()
    await expect(page.get_by_role("status").first).to_contain_text("sale exists now")
    await expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)

    for key, product in (("$rc_annual", "pro_yearly"), ("$rc_monthly", "pro_monthly")):
        await page.get_by_label("Lookup key").fill(key)
        await page.get_by_label("Product", exact=True).select_option(product)
        await page.get_by_role("button", name="Add").click()
        await expect(page.get_by_role("status").first).to_contain_text(f"{key} was added")
    assert await serious_findings(page) == []
    await page.get_by_role("button", name="Move $rc_monthly up").press("Enter")
    await expect(page.get_by_role("status").first).to_contain_text("$rc_monthly is number 1 now")
    await page.get_by_role("button", name="Make it the current offering").click()
    await expect(page.get_by_role("status").first).to_contain_text("sale is the current offering")
    shown = await offered(site)
    assert shown["current_offering_id"] == "sale"
    (sale,) = (one for one in shown["offerings"] if one["identifier"] == "sale")
    assert (sale["description"], sale["metadata"]) == (HOSTILE, {"color": "red"})
    assert [one["identifier"] for one in sale["packages"]] == ["$rc_monthly", "$rc_annual"]

    # It is in use.
    await page.get_by_text("Delete this offering").click()
    await page.get_by_label("I mean it").check()
    await page.get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("alert")).to_contain_text("it is the current offering")
    await page.get_by_role("button", name="Have no current offering").click()
    await expect(page.get_by_role("status").first).to_contain_text("There is none now")
    await page.get_by_label("Name", exact=True).fill("Sale")
    await page.get_by_label("Metadata").fill("")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Sale")
    await page.get_by_text("Delete this offering").click()
    await page.get_by_label("I mean it").check()
    await page.get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("status").first).to_contain_text("The offering is gone")
    assert [one["lookup_key"] for one in (await get(site, "offerings")).json()["items"]] == ["default", "team", "coins"]
    await page.get_by_role("link", name="Pro plans").click()
    await page.get_by_role("button", name="Make it the current offering").click()
    await expect(page.get_by_role("status").first).to_contain_text("default is the current offering")
    developer.complaints = [words for words in developer.complaints if "status of 4" not in words]


async def test_the_page_says_why_an_app_shows_nothing_and_a_base_plan_helps(site: Site, owner: Visitor) -> None:
    google = await app_key(site, "play_store")
    page = await owner.open("/catalog/offerings")
    row = page.get_by_role("row").filter(has_text="An app in play_store")
    await row.get_by_text("left out").click()
    await expect(row).to_contain_text("Google Play sells a subscription by its base plan")
    assert await serious_findings(page) == []

    await page.goto(site.path("/catalog/new-product"))
    await page.get_by_label("Id").fill("team:monthly")
    await page.get_by_label("Price").fill("29.99")
    await page.get_by_label("An app in play_store").check()
    await page.get_by_role("button", name="Put on sale").click()
    await expect(page.get_by_role("status").first).to_contain_text("team:monthly is on sale")

    await page.goto(site.path("/catalog/packages/pkge_demo_team"))
    await expect(page.get_by_text("not shown")).to_be_visible()
    assert await serious_findings(page) == []
    await page.get_by_label("Product", exact=True).select_option("team:monthly")
    await page.get_by_role("button", name="Add").click()
    await expect(page.get_by_role("status").first).to_contain_text("team:monthly is in the package now")
    await expect(page.get_by_text("not shown")).to_have_count(0)
    (team,) = (one for one in (await offered(site, google))["offerings"] if one["identifier"] == "team")
    assert team["packages"] == [
        {
            "identifier": "$rc_monthly",
            "platform_product_identifier": "team",
            "platform_product_plan_identifier": "monthly",
        }
    ]
    await page.get_by_label("Name").fill("By the month")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("By the month")
    await page.get_by_role("button", name="Take team:monthly out").click()
    await expect(page.get_by_role("status").first).to_contain_text("team:monthly is no longer in the package")

    # The product's own page says where it is sold.
    await page.goto(site.path("/catalog/products/team:monthly"))
    await expect(page.get_by_label("An app in play_store")).to_be_checked()
    assert await serious_findings(page) == []
    await page.get_by_label("An app in play_store").uncheck()
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("every app", exact=True)).to_be_visible()
    assert (await get(site, "products/team:monthly")).json()["app_ids"] == []
    await page.get_by_text("Delete this product").click()
    await page.get_by_label("I mean it").check()
    await page.get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("status").first).to_contain_text("is not sold any more")


async def test_a_placement_is_made_changed_and_deleted(site: Site, developer: Visitor) -> None:
    page = await developer.open("/catalog/placements")
    await expect(page.get_by_role("link", name="At the first start")).to_be_visible()
    assert await serious_findings(page) == []
    await page.get_by_role("link", name="New placement").click()
    await page.get_by_label("Id").fill("shop")
    await page.get_by_label("Shows").select_option(label="coins")
    await page.get_by_label("Also at places that have no placement").check()
    assert await serious_findings(page) == []
    await page.get_by_role("button", name="Make it").click()
    await expect(page.get_by_role("status").first).to_contain_text("shop exists now")
    shown = (await offered(site))["placements"]
    assert (shown["fallback_offering_id"], shown["offering_ids_by_placement"]["shop"]) == ("coins", "coins")
    await page.get_by_role("link", name="shop").click()
    await page.get_by_label("Shows").select_option(label="Nothing is offered there")
    await page.get_by_label("Also at places that have no placement").uncheck()
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status").first).to_contain_text("Saved")
    assert (await offered(site))["placements"]["offering_ids_by_placement"]["shop"] is None
    await page.get_by_role("link", name="shop").click()
    assert await serious_findings(page) == []
    await page.get_by_text("Delete this placement").click()
    await page.get_by_label("I mean it").check()
    await page.get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("status").first).to_contain_text("shop is gone")


async def test_a_viewer_looks_and_changes_nothing(site: Site, viewer: Visitor) -> None:
    for path in (
        "/catalog/offerings",
        "/catalog/offerings/ofrng_demo_default",
        "/catalog/packages/pkge_demo_monthly",
        "/catalog/placements",
        "/catalog/placements/onboarding",
    ):
        page = await viewer.open(path)
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        main = page.get_by_role("main")
        await expect(main.get_by_role("button")).to_have_count(0)
        await expect(main.get_by_role("textbox")).to_have_count(0)
        assert await serious_findings(page) == []


async def test_a_variant_shows_an_offering(site: Site, developer: Visitor) -> None:
    page = await developer.open("/experiments/new")
    await page.get_by_label("Name").fill("Teams first")
    await page.get_by_label("Variant 2: Id").fill("b")
    await page.get_by_label("Variant 2: Shows").select_option(label="team")
    assert await serious_findings(page) == []
    await page.get_by_role("button", name="Begin").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Teams first")
    await expect(page.get_by_label("b", exact=True)).to_have_value("ofrng_demo_team")
    assert await serious_findings(page) == []
    await page.get_by_label("b", exact=True).select_option(label="The current offering")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status").first).to_contain_text("Saved")
    (made,) = (one for one in (await get(site, "experiments")).json()["items"] if one["name"] == "Teams first")
    assert [one["offering_id"] for one in made["variants"]] == [None, None]
