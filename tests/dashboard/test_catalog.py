"""The catalog as pages: the grid, the preview of a change, and that every reader sees the change afterwards."""

from __future__ import annotations

import itertools

import pytest

from latchkey.domain.catalog import ProductKind
from latchkey.domain.instants import to_iso
from latchkey.domain.team.account import Role
from latchkey.usecases.catalog import entitlements, products
from latchkey.usecases.catalog.products import Terms
from tests.api.doings import subscriber
from tests.api.management import get, holds
from tests.dashboard.site import Site
from tests.dashboard.tab import Tab, tab

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


async def preview(page: Tab, *boxes: tuple[str, str], tick: bool = True) -> None:
    """What would change if these products granted these entitlements."""
    await page.press("See what would change", {f"{one} grants {other}": tick for one, other in boxes})


def counted(page: Tab, entitlement_id: str) -> tuple[str, ...]:
    [row] = [one for one in page.soup.select("tr") if entitlement_id in one.text and one.select(".gains")]
    return tuple(row.select(kind)[0].text for kind in (".gains", ".losses"))


async def test_ticking_a_box_shows_who_gains_and_saving_it_is_what_every_reader_sees(site: Site) -> None:
    product_id, entitlement_id = await a_mapping(site)
    for name in ("gina", "gus"):
        await site.act("purchase", name, product_id)
    page = await tab(site, Role.DEVELOPER, "/catalog")
    await preview(page, (product_id, entitlement_id))
    assert counted(page, entitlement_id) == ("2", "0")
    assert await holds(site, "gina") == set()
    await page.press("Save")
    assert "Saved" in page.notice
    assert page.ticked(f"{product_id} grants {entitlement_id}")
    assert await holds(site, "gina") == {entitlement_id}
    assert set((await subscriber(site, "gus"))["entitlements"]) == {entitlement_id}
    listed = (await get(site, f"entitlements/{entitlement_id}/products")).json()["items"]
    assert [one["id"] for one in listed] == [product_id]


async def test_taking_a_tick_away_must_be_meant_and_takes_access_away(site: Site) -> None:
    product_id, entitlement_id = await a_mapping(site, granted=True)
    other, _ = await a_mapping(site)
    await entitlements.attach_products(site.database, site.project_id, entitlement_id, [other])
    for name in ("lena", "leo", "lou"):
        await site.act("purchase", name, product_id)
    # Leo holds it by another product too, so he loses nothing.
    await site.act("purchase", "leo", other)
    page = await tab(site, Role.OWNER, "/catalog")
    await preview(page, (product_id, entitlement_id), tick=False)
    assert counted(page, entitlement_id) == ("0", "2")
    with pytest.raises(AssertionError, match="confirm is required"):
        await page.press("Save")
    await page.press("Save", sure=True)
    assert "Saved" in page.notice
    assert [await holds(site, name) for name in ("lena", "leo", "lou")] == [set(), {entitlement_id}, set()]
    # It was granted, and ended with this change.
    ended = (await subscriber(site, "lena"))["entitlements"]
    assert {id: one["expires_date"] for id, one in ended.items()} == {entitlement_id: to_iso(site.clock.now)}


async def test_the_second_of_two_people_is_told_that_the_catalog_changed_and_keeps_what_they_wanted(
    site: Site,
) -> None:
    mine, late = await a_mapping(site), await a_mapping(site)
    first, second, third = [await tab(site, Role.DEVELOPER, "/catalog") for _ in range(3)]
    await preview(third, (mine[0], late[1]))
    await preview(first, mine)
    await first.press("Save")
    assert "Saved" in first.notice
    await preview(second, late)
    await third.press("Save")
    for page in (second, third):
        assert page.status == 409
        assert "Somebody changed the catalog meanwhile" in page.alert
        # The form shows what the first person saved, and keeps what the second one chose.
        assert page.ticked(" grants ".join(mine))
    assert second.ticked(" grants ".join(late))
    assert third.ticked(f"{mine[0]} grants {late[1]}")
    await preview(second)
    await second.press("Save")
    assert "Saved" in second.notice
    found = [await products.load_product(site.database, site.project_id, one) for one, _ in (mine, late)]
    assert [one.entitlement_ids for one in found] == [(mine[1],), (late[1],)]


async def test_saving_without_a_change_changes_nothing(site: Site) -> None:
    await a_mapping(site)
    page = await tab(site, Role.DEVELOPER, "/catalog")
    await preview(page)
    assert "Nothing was changed" in page.notice
