"""`From the store` in a browser: what differs is shown, and what is ticked is taken over."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import expect

from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.audit import usecases as audit
from tests.dashboard.site import Site, Visitor, serious_findings
from tests.dashboard.tab import tab
from tests.http.apple import AppStore, app_store, connected_app, new_app
from tests.http.management import get


@pytest.fixture
async def store() -> AsyncIterator[AppStore]:
    async with app_store() as store:
        yield store


async def test_products_are_taken_over_by_ticking_them(site: Site, developer: Visitor, store: AppStore) -> None:
    app = await connected_app(site, store)
    store.emulator.add_product({"id": "gold", "period": "P1M", "trial": "P7D", "price": 19.99})
    store.emulator.add_product({"id": "pro_monthly", "period": "P1M", "trial": "P7D", "price": 12.99})
    page = await developer.open("/catalog/products")
    await page.get_by_role("link", name="From the store").click()
    gold = page.get_by_role("row").filter(has_text="gold")
    await expect(gold).to_contain_text("new")
    await expect(gold.get_by_role("checkbox")).to_be_checked()
    pro = page.get_by_role("row").filter(has_text="pro_monthly")
    await expect(pro).to_contain_text("Price: $9.99 here, $12.99 in the store")
    await expect(pro.get_by_role("checkbox")).not_to_be_checked()
    assert await serious_findings(page) == []
    await pro.get_by_role("checkbox").check()
    await page.get_by_role("button", name="Take over the ticked products").click()
    await expect(page.locator(".notice")).to_contain_text("2 products are new in the catalog, and 1 were changed")
    made = (await get(site, "products/gold")).json()
    assert (made["price"], made["trial_duration"], made["app_ids"]) == (19.99, "P1W", [app["id"]])
    # The other apps keep their price.
    assert (await get(site, "products/pro_monthly")).json()["price"] == 9.99
    entry = (await audit.entries(site.database, site.project_id, limit=1))[0]
    assert (entry.action, entry.subject) == ("store_products.taken_over", app["id"])


async def test_what_the_store_answers_is_on_the_page(site: Site, developer: Visitor, store: AppStore) -> None:
    bare = await new_app(site)
    page = await developer.open(f"/catalog/from-store?app={bare['id']}")
    await expect(page.get_by_role("alert")).to_contain_text("has no credentials yet")
    app = await connected_app(site, store)
    store.emulator.misbehave(api={"kind": "error"})
    await page.reload()
    await page.get_by_label("App").select_option(app["id"])
    await page.get_by_role("button", name="Show").click()
    await expect(page.get_by_role("alert")).to_contain_text("Apple answered 503")


async def test_what_is_not_ticked_or_not_there_any_more_changes_nothing(site: Site, store: AppStore) -> None:
    here = f"/catalog/from-store?app={(await connected_app(site, store))['id']}"
    store.emulator.add_product({"id": "silver", "period": "P1M"})
    page = await (await tab(site)).open(here)
    ticked = [str(box["value"]) for box in page.soup.select("input[name=product][checked]")]
    assert "silver" in ticked
    await page.press("Take over the ticked products", {f"Take over {id}": False for id in ticked})
    assert (page.status, "Tick the products" in page.html) == (400, True)
    # What was ticked is still there to choose from.
    await page.press("Take over the ticked products", {"Take over silver": True})
    assert (page.status, (await get(site, "products/silver")).status) == (200, 200)
    store.emulator.add_product({"id": "bronze", "period": "P1M"})
    await page.open(here)
    store.emulator.add_product({"id": "bronze", "period": "P1M", "on_sale": False})
    await page.press("Take over the ticked products")
    assert (page.status, "cannot be taken over" in page.html) == (422, True)
    assert (await get(site, "products/bronze")).status == 404


async def test_an_app_of_another_project_is_not_found(site: Site, store: AppStore) -> None:
    await connected_app(site, store)
    page = await (await tab(site)).open("/catalog/from-store?app=app_of_others")
    assert page.status == 404


async def test_a_viewer_sees_and_changes_nothing(site: Site, store: AppStore) -> None:
    app = await connected_app(site, store)
    page = await (await tab(site, Role.VIEWER)).open(f"/catalog/from-store?app={app['id']}")
    assert (page.status, "basic_monthly" in page.text(), "Take over the ticked" in page.html) == (200, True, False)
