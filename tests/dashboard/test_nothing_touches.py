"""Texts that stood too close to one another, or on top of one another."""

from __future__ import annotations

from playwright.async_api import Browser, Locator

from latchkey.domain.team.account import Role
from tests.api.doings import did, told
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


# Elements of a page with the next one less than 5 pixels below them.
CLOSE = """() => [...document.querySelectorAll('main :is(form, .wide, dl, pre, button, .button)')].filter(one => {
    const next = one.nextElementSibling;
    if (!next?.checkVisibility() || !one.checkVisibility()) return false;
    const between = next.getBoundingClientRect().top - one.getBoundingClientRect().bottom;
    return between > -1 && between < 5;
}).map(one => one.outerHTML.slice(0, 80) + ' … ' + one.nextElementSibling.outerHTML.slice(0, 80))"""


async def test_what_stands_below_a_table_a_list_or_a_button_keeps_away_from_it(site: Site, browser: Browser) -> None:
    await did(site, "purchase", "below", "pro_monthly")
    event = (await told(site, "below"))[0]["id"]
    paths = (
        "/money",
        "/catalog/offerings/ofrng_demo_default",
        f"/events/{event}",
        "/bulk-grants/new",
        "/customers/below",
    )
    wrong = {}
    async with visiting(browser, site, Role.OWNER, viewport={"width": 1440, "height": 900}) as visitor:
        page = await visitor.open()
        for path in (*(site.path(one) for one in paths), f"{site.url}/dashboard/account"):
            await page.goto(path)
            if found := await page.evaluate(CLOSE):
                wrong[path] = found
    assert not wrong, wrong
