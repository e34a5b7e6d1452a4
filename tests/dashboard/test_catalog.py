"""The catalog in a browser: the grid, the preview of a change, and that every reader sees the change afterwards."""

from __future__ import annotations

import itertools

from playwright.async_api import Browser, Page, expect

from latchkey.domain.catalog import ProductKind
from latchkey.domain.instants import to_iso
from latchkey.domain.team.account import Role
from latchkey.usecases.catalog import entitlements, products
from latchkey.usecases.catalog.products import Terms
from tests.api.doings import subscriber
from tests.api.management import get, holds
from tests.dashboard.site import Site, Visitor, serious_findings, visiting

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>\u202egnp.exe'
LONG = "W" * 100
_numbers = itertools.count(1)


async def a_mapping(site: Site, *, granted: bool = False) -> tuple[str, str]:
    """A new product and a new entitlement; the product grants it if `granted`."""
    number = next(_numbers)
    entitlement_id, product_id = f"feature_{number}", f"product_{number}"
    terms = Terms(kind=ProductKind.SUBSCRIPTION, price=5, currency="EUR", duration="P1M")
    await entitlements.create_entitlement(site.database, site.project_id, entitlement_id, "Feature", site.clock.now)
    await products.create_product(site.database, site.project_id, product_id, terms, site.clock.now)
    if granted:
        await entitlements.attach_products(site.database, site.project_id, entitlement_id, [product_id])
    return product_id, entitlement_id


async def toggle(page: Page, product_id: str, entitlement_id: str) -> None:
    await page.get_by_label(f"{product_id} grants {entitlement_id}", exact=True).click()


async def preview(page: Page) -> None:
    await page.get_by_role("button", name="See what would change").click()
    await expect(page.get_by_role("heading", name="What would change")).to_be_visible()
    await expect(page.locator("[data-counted]")).to_be_visible()


async def counted(page: Page, entitlement_id: str) -> tuple[int, int]:
    row = page.get_by_role("row").filter(has_text=entitlement_id)
    gains, losses = await row.locator(".gains").inner_text(), await row.locator(".losses").inner_text()
    return int(gains.replace(",", "")), int(losses.replace(",", ""))


async def test_ticking_a_box_shows_who_gains_and_saving_it_is_what_every_reader_sees(
    site: Site, developer: Visitor
) -> None:
    product_id, entitlement_id = await a_mapping(site)
    for name in ("gina", "gus"):
        await site.act("purchase", name, product_id)
    page = await developer.open("/catalog")
    assert await serious_findings(page) == []
    await toggle(page, product_id, entitlement_id)
    await preview(page)
    assert await counted(page, entitlement_id) == (2, 0)
    assert await serious_findings(page) == []
    assert await holds(site, "gina") == set()
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status").first).to_contain_text("Saved")
    await expect(page.get_by_label(f"{product_id} grants {entitlement_id}", exact=True)).to_be_checked()
    assert await holds(site, "gina") == {entitlement_id}
    assert set((await subscriber(site, "gus"))["entitlements"]) == {entitlement_id}
    listed = (await get(site, f"entitlements/{entitlement_id}/products")).json()["items"]
    assert [one["id"] for one in listed] == [product_id]


async def test_taking_a_tick_away_must_be_meant_and_takes_access_away(site: Site, owner: Visitor) -> None:
    product_id, entitlement_id = await a_mapping(site, granted=True)
    other, _ = await a_mapping(site)
    await entitlements.attach_products(site.database, site.project_id, entitlement_id, [other])
    for name in ("lena", "leo", "lou"):
        await site.act("purchase", name, product_id)
    # Leo holds it by another product too, so he loses nothing.
    await site.act("purchase", "leo", other)
    page = await owner.open("/catalog")
    await toggle(page, product_id, entitlement_id)
    await preview(page)
    assert await counted(page, entitlement_id) == (0, 2)
    await page.get_by_role("button", name="Save").click()
    # The browser requires the checkbox; nothing was sent.
    assert "/catalog/preview" in page.url
    assert await holds(site, "lena") == {entitlement_id}
    await page.get_by_label("I mean it", exact=False).check()
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status").first).to_contain_text("Saved")
    assert [await holds(site, name) for name in ("lena", "leo", "lou")] == [set(), {entitlement_id}, set()]
    # It was granted, and ended with this change.
    ended = (await subscriber(site, "lena"))["entitlements"]
    assert {id: one["expires_date"] for id, one in ended.items()} == {entitlement_id: to_iso(site.clock.now)}


async def test_the_second_of_two_people_is_told_that_the_catalog_changed_and_keeps_what_they_wanted(
    browser: Browser, site: Site, owner: Visitor
) -> None:
    product_id, entitlement_id = await a_mapping(site)
    other, other_entitlement = await a_mapping(site)
    async with visiting(browser, site, Role.DEVELOPER) as second:
        mine, theirs = await owner.open("/catalog"), await second.open("/catalog")
        late = await second.open("/catalog")
        await toggle(late, product_id, other_entitlement)
        await preview(late)
        await toggle(mine, product_id, entitlement_id)
        await preview(mine)
        await mine.get_by_role("button", name="Save").click()
        await expect(mine.get_by_role("status").first).to_contain_text("Saved")

        await toggle(theirs, other, other_entitlement)
        await theirs.get_by_role("button", name="See what would change").click()
        for page in (theirs, late):
            if page is late:
                await page.get_by_role("button", name="Save").click()
            await expect(page.get_by_role("alert")).to_contain_text("Somebody changed the catalog meanwhile")
            # The form shows what the first person saved, and keeps what the second one chose.
            await expect(page.get_by_label(f"{product_id} grants {entitlement_id}", exact=True)).to_be_checked()
        await expect(theirs.get_by_label(f"{other} grants {other_entitlement}", exact=True)).to_be_checked()
        await expect(late.get_by_label(f"{product_id} grants {other_entitlement}", exact=True)).to_be_checked()
        await preview(theirs)
        await theirs.get_by_role("button", name="Save").click()
        await expect(theirs.get_by_role("status").first).to_contain_text("Saved")
        # The browser writes the status 409 to its console.
        assert [words for words in second.complaints if "409" not in words] == []
        second.complaints.clear()
    found = [await products.load_product(site.database, site.project_id, one) for one in (product_id, other)]
    assert [one.entitlement_ids for one in found] == [(entitlement_id,), (other_entitlement,)]


async def test_saving_without_a_change_changes_nothing(site: Site, developer: Visitor) -> None:
    await a_mapping(site)
    page = await developer.open("/catalog")
    await page.get_by_role("button", name="See what would change").click()
    await expect(page.get_by_role("status").first).to_contain_text("Nothing was changed")
