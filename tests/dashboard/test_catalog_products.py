"""Products and entitlements in a browser, and what the catalog shows to those who only look."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from latchkey.dashboard.cookie import NAME
from latchkey.dashboard.pages import apps
from latchkey.domain.team.account import Role
from latchkey.usecases.access import projects, team
from latchkey.usecases.catalog import entitlements
from latchkey.usecases.engine import walk as customer_walk
from tests.api.management import get
from tests.dashboard.asking import signed_in, somebody
from tests.dashboard.site import Site, Visitor, serious_findings, visiting
from tests.dashboard.test_catalog import a_mapping, counted, toggle

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>\u202egnp.exe'
LONG = "W" * 100


async def test_a_product_is_made_changed_and_deleted_and_the_api_agrees(site: Site, developer: Visitor) -> None:
    page = await developer.open("/catalog/new-product")
    assert await serious_findings(page) == []
    await page.get_by_label("Id").fill("gold_monthly")
    await page.get_by_label("Name").fill(HOSTILE)
    await page.get_by_label("Price").fill("ten")
    await page.get_by_role("button", name="Put on sale").click()
    await expect(page.get_by_role("alert")).to_contain_text("A price is a number such as 9.99")
    await expect(page.get_by_label("Name")).to_have_value(HOSTILE)
    await page.get_by_label("Price").fill("12,50")
    await page.get_by_label("Currency").fill("eur")
    # Lengths are written in words; ISO 8601 is taken too.
    await expect(page.get_by_label("Lasts")).to_have_value("1 month")
    await page.get_by_label("Trial").fill("7 moons")
    await page.get_by_role("button", name="Put on sale").click()
    await expect(page.get_by_role("alert")).to_contain_text("Write it as '1 month', '7 days' or P1M")
    await page.get_by_label("Trial").fill("7 days")
    await page.get_by_role("button", name="Put on sale").click()
    await expect(page.get_by_role("status").first).to_contain_text("gold_monthly is on sale")
    shown = (await get(site, "products/gold_monthly")).json()
    assert [shown[name] for name in ("display_name", "price", "currency", "duration", "trial_duration")] == [
        HOSTILE, 12.5, "EUR", "P1M", "P7D",
    ]  # fmt: skip
    await page.get_by_role("link", name=HOSTILE[:40]).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    assert await serious_findings(page) == []

    await page.get_by_label("Price").fill("9.99")
    await expect(page.get_by_label("Trial")).to_have_value("1 week")
    await page.get_by_role("button", name="Save").click()
    assert (await get(site, "products/gold_monthly")).json()["trial_duration"] == "P7D"
    await page.get_by_label("Lasts").fill("p1m")
    await page.get_by_label("Trial").fill("")
    await page.get_by_label("Comes with").select_option("COIN")
    await page.get_by_label("Amount").fill("5")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status").first).to_contain_text("Running subscriptions keep their price")
    shown = (await get(site, "products/gold_monthly")).json()
    assert (shown["price"], shown["trial_duration"], shown["credits"]) == (9.99, None, {"code": "COIN", "amount": 5})
    await page.get_by_label("Lasts").fill("")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("alert")).to_contain_text("A subscription needs a duration")

    await page.get_by_text("Delete this product").click()
    await page.get_by_label("I mean it").check()
    await page.get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("status").first).to_contain_text("gold_monthly is not sold any more")
    assert (await get(site, "products/gold_monthly")).status == 404
    assert await serious_findings(page) == []
    developer.complaints = [words for words in developer.complaints if "status of 400" not in words]


async def test_an_entitlement_is_made_renamed_and_deleted_once_nothing_grants_it(site: Site, owner: Visitor) -> None:
    page = await owner.open("/catalog/new-entitlement")
    await page.get_by_label("Id").fill("pro")
    await page.get_by_role("button", name="Make it").click()
    await expect(page.get_by_role("alert")).to_contain_text("There is already an entitlement 'pro'")
    await page.get_by_label("Id").fill("offline")
    await page.get_by_label("Name").fill(LONG)
    await page.get_by_role("button", name="Make it").click()
    await expect(page.get_by_role("status").first).to_contain_text("offline exists now")
    await entitlements.attach_products(site.database, site.project_id, "offline", ["pro_monthly"])

    await page.goto(site.path("/catalog/entitlements"))
    assert await serious_findings(page) == []
    await page.get_by_role("link", name=LONG[:20]).click()
    await page.get_by_label("Name").fill("Offline")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Offline")
    assert await serious_findings(page) == []
    for granted in (True, False):
        await page.get_by_text("Delete this entitlement").click()
        await page.get_by_label("I mean it").check()
        await page.get_by_role("button", name="Delete").click()
        if granted:
            await expect(page.get_by_role("alert")).to_contain_text("is granted by 'pro_monthly'")
            await entitlements.detach_products(site.database, site.project_id, "offline", ["pro_monthly"], 0)
    await expect(page.get_by_role("status").first).to_contain_text("offline is gone")
    assert (await get(site, "entitlements/offline")).status == 404
    owner.complaints = [words for words in owner.complaints if "status of 4" not in words]


async def test_who_only_looks_sees_the_mapping_and_no_button(
    browser: Browser, site: Site, viewer: Visitor, support: Visitor
) -> None:
    product_id, entitlement_id = await a_mapping(site, granted=True)
    await entitlements.rename_entitlement(site.database, site.project_id, entitlement_id, HOSTILE)
    paths = ("/catalog", "/catalog/products", "/catalog/entitlements")
    ones = (f"/catalog/products/{product_id}", f"/catalog/entitlements/{entitlement_id}")
    for visitor in (viewer, support):
        for path in (*paths, *ones):
            page = await visitor.open(path)
            assert await page.locator("main button, main input:not([type=hidden]), main .tools a").count() == 0, path
        await page.goto(site.path("/catalog"))
        await expect(page.get_by_role("img", name=f"{product_id} grants {entitlement_id}")).to_be_visible()
        await expect(page.get_by_role("columnheader", name=HOSTILE[:20])).to_be_visible()
    phone = {"width": 390, "height": 800}
    async with visiting(browser, site, Role.DEVELOPER, color_scheme="dark", viewport=phone) as visitor:
        page = await visitor.open()
        for path in (*paths, *ones, "/catalog/new-product", "/catalog/new-entitlement"):
            await page.goto(site.path(path))
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            assert await serious_findings(page) == []


async def test_a_long_count_goes_on_by_itself_until_it_is_complete(
    site: Site, developer: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    product_id, entitlement_id = await a_mapping(site)
    for number in range(12):
        await site.act("purchase", f"many {number}", product_id)
    page = await developer.open("/catalog")
    await toggle(page, product_id, entitlement_id)
    monkeypatch.setattr(customer_walk, "AT_ONCE", 2)
    monkeypatch.setattr(customer_walk, "SECONDS", 0)
    async with page.expect_response(lambda reply: "passed=2" in reply.url):
        await page.get_by_role("button", name="See what would change").click()
    await expect(page.locator("[data-counted]")).to_be_visible()
    assert await counted(page, entitlement_id) == (12, 0)
    await expect(page.get_by_role("status")).to_contain_text("customers were looked at")
    assert await serious_findings(page) == []


async def test_forms_and_addresses_that_no_page_of_ours_makes_are_refused(site: Site) -> None:
    me = await somebody(site, Role.DEVELOPER)
    below = f"/dashboard/projects/{site.project_id}/catalog"
    version = await _version(site)
    too_many = [f"product_{number}|pro" for number in range(201)]
    tried: list[tuple[str, dict[str, object], int]] = [
        ("mapping", {"version": version, "grant": "nonsense"}, 400),
        ("mapping", {"version": "x", "grant": "pro_monthly|team"}, 400),
        ("mapping", {"version": version, "grant": "nothing|team"}, 404),
        ("mapping", {"version": version, "grant": too_many}, 400),
        ("mapping/save", {"version": version, "attach": "pro_monthly|nothing"}, 404),
        ("mapping/save", {"version": version, "detach": "pro_monthly|pro"}, 400),
        ("mapping/save", {"version": version - 1, "attach": "pro_monthly|team"}, 409),
        ("new-product", {"id": "x y", "kind": "subscription", "price": "1", "currency": "USD", "duration": "P1M"}, 400),
        ("new-product", {"id": "xy", "kind": "rent", "price": "1", "currency": "USD"}, 400),
        ("new-product", {"id": "xy", "kind": "one_time", "price": "nan", "currency": "USD"}, 400),
        (
            "new-product",
            {"id": "xy", "kind": "one_time", "price": "1", "currency": "USD", "code": "NO", "amount": 1},
            404,
        ),
        ("new-product", {"id": "xy", "kind": "one_time", "price": "1", "currency": "USD", "code": "COIN"}, 400),
        ("products/pro_monthly/delete", {}, 400),
        ("products/nothing", {"price": "1", "currency": "USD"}, 404),
        ("entitlements/nothing", {"display_name": "x"}, 404),
    ]
    for path, form, status in tried:
        reply = await me.post(f"{below}/{path}", form)
        assert (reply.status, path) == (status, path), (form, reply)
    for query, status in (("", 303), ("version=1&attach=nonsense", 400), (f"version={version}&attach=a%7Cb", 404),
                          (f"version={version}&attach=pro_monthly%7Cteam&gains=x%7Cy", 400),
                          (f"version={version}&attach=pro_monthly%7Cteam&after=-1", 400),
                          (f"version={version - 1}&attach=pro_monthly%7Cteam", 409)):  # fmt: skip
        wanted = f"{below}/preview?{query}" if query else f"{below}/preview?version=1"
        assert (await me.get(wanted)).status == status, query
    assert await _version(site) == version


async def test_a_new_project_is_told_what_to_do_first(browser: Browser, site: Site) -> None:
    made = await projects.create_project(site.database, HOSTILE[:100], site.clock.now)
    email = await site.person(None)
    await team.add_member(site.database, made.id, email, Role.OWNER, site.clock.now)
    async with visiting(browser, site, None) as visitor:
        token = (await signed_in(site, email)).token
        await visitor.context.add_cookies([{"name": NAME, "value": token or "", "url": site.url, "secure": True}])
        page = await visitor.context.new_page()
        for path, words in (
            ("catalog", "Begin with an entitlement"),
            ("catalog/products", "No products yet"),
            ("catalog/entitlements", "No entitlements yet"),
            ("experiments", "No experiments yet"),
            ("currencies", "No virtual currencies yet"),
            ("apps", "No apps yet"),
            ("keys", "No secret keys yet"),
        ):
            await page.goto(f"{site.url}/dashboard/projects/{made.id}/{path}")
            await expect(page.get_by_role("heading", name=words)).to_be_visible()
            await expect(page.locator(".snippet code")).to_contain_text(made.id)
        assert await serious_findings(page) == []
        await entitlements.create_entitlement(site.database, made.id, "pro", "Pro", site.clock.now)
        await page.goto(f"{site.url}/dashboard/projects/{made.id}/catalog")
        await expect(page.get_by_role("heading", name="Now something to buy")).to_be_visible()


def test_every_store_has_a_name() -> None:
    assert apps.STORES.keys() == projects.PUBLIC_PREFIXES.keys()


async def _version(site: Site) -> int:
    async with site.database.acquire() as connection:
        version: int = await connection.fetchval("select catalog_version from projects where id = $1", site.project_id)
    return version


async def test_a_price_is_listed_and_deleted_and_the_api_agrees(site: Site, developer: Visitor) -> None:
    page = await developer.open("/catalog/products/pro_monthly")
    await page.get_by_role("link", name="by store, country and currency").click()
    await expect(page.get_by_text("everywhere: no other prices are listed")).to_be_visible()
    await page.get_by_label("Price").fill("8,99")
    await page.get_by_label("Currency").fill("eur")
    await page.get_by_label("Country").fill("xx")
    await page.get_by_role("button", name="List this price").click()
    await expect(page.get_by_role("alert")).to_contain_text("ISO 3166")
    await expect(page.get_by_label("Price")).to_have_value("8,99")
    await page.get_by_label("Country").fill("de")
    await page.get_by_role("button", name="List this price").click()
    await expect(page.get_by_role("status").first).to_contain_text("What was bought keeps its price")
    assert await serious_findings(page) == []
    listed = (await get(site, "products/pro_monthly/prices")).json()["items"]
    assert [(one["id"], one["price"]) for one in listed] == [("-.DE.EUR", 8.99)]
    await page.get_by_role("button", name="Delete the price -.DE.EUR").click()
    await expect(page.get_by_role("status").first).to_contain_text("-.DE.EUR is listed no more")
    assert (await get(site, "products/pro_monthly/prices")).json()["items"] == []
    developer.complaints = [words for words in developer.complaints if "status of 400" not in words]
