"""Texts that stood too close to one another, or on top of one another."""

from __future__ import annotations

from playwright.async_api import Browser, Locator

from latchkey.domain.team.account import Role
from tests.api.doings import did
from tests.dashboard.site import Site, visiting

TABLET = {"width": 820, "height": 1180}


# Left, top, right, bottom.
Box = tuple[float, float, float, float]


async def box_of(one: Locator) -> Box:
    box = await one.bounding_box()
    assert box is not None
    return box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]


async def drawn(all: Locator) -> list[Box]:
    """Of parts of a picture, without the halo of its texts."""
    boxes = await all.evaluate_all(
        "all => all.map(one => one.getBBox()).map(one => [one.x, one.y, one.x + one.width, one.y + one.height])"
    )
    return [(left, top, right, bottom) for left, top, right, bottom in boxes]


def overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


async def test_the_longest_type_of_event_keeps_away_from_the_customer_on_a_tablet(site: Site, browser: Browser) -> None:
    await did(site, "purchase", "close", "coins_100")
    async with visiting(browser, site, Role.VIEWER, viewport=TABLET) as visitor:
        page = await visitor.open("/events?customer=close")
        row = page.get_by_role("row").filter(has_text="VIRTUAL_CURRENCY_TRANSACTION")
        badge, customer = await box_of(row.locator("[data-type]")), await box_of(row.locator("[data-customer]"))
        assert customer[0] - badge[2] >= 10
        # Every row has its customer at the same place.
        lefts = await page.locator("[data-rows] [data-customer]").evaluate_all(
            "all => [...new Set(all.map(one => one.getBoundingClientRect().left))]"
        )
        assert lefts == [customer[0]]


async def test_the_line_of_now_does_not_cross_the_title_of_what_was_bought_now(site: Site, browser: Browser) -> None:
    await did(site, "purchase", "fresh", "pro_monthly")
    await did(site, "purchase", "fresh", "pro_lifetime")
    async with visiting(browser, site, Role.VIEWER, viewport=TABLET) as visitor:
        page = await visitor.open("/customers/fresh")
        titles, marks = await drawn(page.locator("svg.life .title")), await drawn(page.locator("svg.life .now > *"))
        assert len(titles) == 2
        assert len(marks) >= 2
        assert all(mark[0] < titles[0][2] for mark in marks), "the line is not beside the titles"
        assert not [(mark, title) for mark in marks for title in titles if overlap(mark, title)]
