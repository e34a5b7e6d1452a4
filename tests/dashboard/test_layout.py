"""No page is wider than the screen, on a phone, a tablet and a desk; ids break between their parts; the header of a
phone is one line."""

from typing import Any

import pytest
from playwright.async_api import Browser, Locator, expect

from latchkey.dashboard.cookie import SESSION
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.accounts.usecases.team import add_member
from latchkey.subjects.currencies.usecases import create_currency
from latchkey.subjects.projects.usecases import create_project
from tests.dashboard.asking import signed_in
from tests.dashboard.full_project import paths_of_a_full_project
from tests.dashboard.site import Site, serious_findings, visiting
from tests.dashboard.tab import Tab
from tests.http.doings import did, told

WIDTHS = (390, 820, 1440)
ONE_LINE = 64
# What is measured: pixels beyond the edge, texts and placeholders that are cut off, ids with a part of at most 20
# letters on two lines, and the header's height.
MEASURE = """() => {
    const root = document.documentElement;
    const cut = [...document.querySelectorAll('main *, header *')].filter(one => {
        if (!one.checkVisibility({visibilityProperty: true}) || one.closest('svg, input, .hidden-words')) return false;
        const hides = ['hidden', 'clip'].includes(getComputedStyle(one).overflowX);
        return hides && one.clientWidth > 4 && one.scrollWidth > one.clientWidth + 1;
    });
    const tables = [...document.querySelectorAll('main table')].filter(one => {
        const box = one.getBoundingClientRect();
        return box.width && box.right > root.clientWidth + 1 && !one.closest('.wide');
    });
    const pen = document.createElement('canvas').getContext('2d');
    // The words of an input that is empty: a placeholder, or the form of a date.
    const short = [...document.querySelectorAll('main input')].filter(one => {
        const words = one.type === 'datetime-local' ? 'mm/dd/yyyy, --:-- --' : one.placeholder;
        if (!words || !one.checkVisibility({visibilityProperty: true})) return false;
        const style = getComputedStyle(one);
        pen.font = style.font;
        const room = one.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
        return pen.measureText(words).width + (one.type === 'datetime-local' || one.list ? 20 : 0) > room;
    });
    const ids = document.querySelectorAll('main :is(td code, .mapping small, [data-product], .deliveries a)');
    const torn = [...ids].filter(one => {
        const texts = document.createTreeWalker(one, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            for (const part of texts.currentNode.data.matchAll(/[A-Za-z0-9]{2,20}(?![A-Za-z0-9])/g)) {
                if (/[A-Za-z0-9]$/.test(texts.currentNode.data.slice(0, part.index))) continue;
                const range = document.createRange();
                range.setStart(texts.currentNode, part.index);
                range.setEnd(texts.currentNode, part.index + part[0].length);
                if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) return true;
            }
        }
        return false;
    });
    return {
        torn: torn.map(one => one.outerHTML.slice(0, 200)),
        beyond: root.scrollWidth - root.clientWidth,
        by: root.scrollWidth > root.clientWidth ? [...document.querySelectorAll('body *')].filter(
            one => one.getBoundingClientRect().right > root.clientWidth + 1 && !one.closest('.wide, pre')
        ).slice(-2).map(one => one.outerHTML.slice(0, 200)) : [],
        cut: [...cut, ...tables, ...short].map(one => one.outerHTML.slice(0, 200)),
        header: document.querySelector('header.side')?.getBoundingClientRect().height ?? 0,
    };
}"""


async def test_no_page_is_wider_than_the_screen_or_tears_an_id(site: Site, browser: Browser) -> None:
    paths = await paths_of_a_full_project(site)
    assert len(paths) > 30
    wrong: list[tuple[str, int, Any]] = []
    async with visiting(browser, site, Role.OWNER, viewport={"width": WIDTHS[0], "height": 844}) as visitor:
        page = await visitor.open()
        for path in paths:
            reply = await page.goto(site.url + path)
            assert reply is not None
            assert reply.status == 200, path
            for width in WIDTHS:
                await page.set_viewport_size({"width": width, "height": 844})
                seen = await page.evaluate(MEASURE)
                tall = width == WIDTHS[0] and seen["header"] > ONE_LINE
                if seen["beyond"] > 0 or seen["cut"] or seen["torn"] or tall:
                    wrong.append((path, width, seen))
            await page.set_viewport_size({"width": WIDTHS[0], "height": 844})
    assert not wrong, "\n".join(map(str, wrong))


async def test_the_menu_of_a_phone_opens_and_closes(site: Site, browser: Browser) -> None:
    phone = {"width": 390, "height": 844}
    async with visiting(browser, site, Role.OWNER, viewport=phone) as visitor:
        page = await visitor.open("/money")
        link = page.get_by_role("link", name="Audit log")
        await expect(link).to_be_hidden()
        await page.get_by_text("Menu", exact=True).click()
        await page.get_by_text("Project", exact=True).last.click()
        await expect(link).to_be_visible()
        assert await serious_findings(page) == []
        await page.keyboard.press("Escape")
        await expect(link).to_be_hidden()
    async with visiting(browser, site, Role.OWNER, viewport=phone, java_script_enabled=False) as visitor:
        page = await visitor.open("/money")
        await page.get_by_text("Menu", exact=True).click()
        await page.get_by_text("Project", exact=True).last.click()
        await page.get_by_role("link", name="Audit log").click()
        await page.set_viewport_size({"width": 1440, "height": 844})
        await expect(page.get_by_role("link", name="Team")).to_be_visible()


async def test_a_table_that_does_not_fit_becomes_blocks_and_one_that_fits_stays(site: Site, browser: Browser) -> None:
    async with visiting(browser, site, Role.OWNER, viewport={"width": 390, "height": 844}) as visitor:
        page = await visitor.open("/keys")
        table = page.locator("main table")
        await expect(table).to_have_class("stacked")
        used = table.get_by_role("cell").nth(4)
        assert await used.evaluate("one => getComputedStyle(one, '::before').content") == '"Last used"'
        await expect(table.get_by_role("columnheader", name="Last used")).to_have_count(1)
        await page.set_viewport_size({"width": 1440, "height": 844})
        await expect(table).not_to_have_class("stacked")


async def test_a_customer_is_a_card_on_a_phone_and_a_row_at_a_desk(site: Site, browser: Browser) -> None:
    await did(site, "purchase", "ada", "pro_monthly")
    await site.note("ada", __email="ada@example.com")
    # Something in every column.
    long = "demo_mateo_kowalski_2147"
    await did(site, "purchase", long, "pro_monthly", country="DE", trial=True)
    await did(site, "cancel", long)
    await site.note(long, __email="mateo.kowalski.2147@example.com")
    async with visiting(browser, site, Role.OWNER, viewport={"width": 390, "height": 844}) as visitor:
        page = await visitor.open("/customers?columns=status&columns=email&columns=spent&columns=last_seen")
        row = page.get_by_role("row").filter(has_text="ada@example.com")
        cells = row.get_by_role("cell")
        assert await cells.count() == 5
        for place in range(5):
            box = await cells.nth(place).bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
        await page.set_viewport_size({"width": 1440, "height": 844})
        tops = [await cells.nth(place).evaluate("one => one.getBoundingClientRect().top") for place in range(5)]
        assert len(set(tops)) == 1
        await page.goto(site.path("/customers"))
        beyond = "one => one.scrollWidth - one.clientWidth"
        assert await page.get_by_role("region", name="Customers").evaluate(beyond) <= 0


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


GROUPS = ["Analyse", "Customers", "Catalog", "Develop", "Project"]
BELOW_THE_EDGE = "menu => menu.scrollHeight - menu.clientHeight"


@pytest.mark.parametrize("page_of_group", ["", "/experiments", "/keys", "/audit"])
async def test_the_menu_fits_on_a_small_laptop(browser: Browser, site: Site, page_of_group: str) -> None:
    async with visiting(browser, site, Role.OWNER, viewport={"width": 1366, "height": 700}) as visitor:
        page = await visitor.open(page_of_group)
        assert await page.eval_on_selector(".menu", BELOW_THE_EDGE) <= 0
        groups = await page.locator("nav[aria-label=Project] summary").all_inner_texts()
        assert [group for group in groups if group != "More"] == GROUPS


async def test_what_a_project_does_not_use_yet_is_one_click_away(browser: Browser, site: Site) -> None:
    new = await create_project(site.database, "Empty", site.clock.now)
    email = await site.person()
    await add_member(site.database, new.id, email, Role.OWNER, site.clock.now)
    start = f"/dashboard/projects/{new.id}"
    async with visiting(browser, site, None, viewport={"width": 1366, "height": 700}) as visitor:
        person = await signed_in(site, email)
        await visitor.context.add_cookies([{"name": SESSION, "value": person.token or "", "url": site.url}])
        page = await visitor.context.new_page()
        await page.goto(site.url + start)
        menu = page.get_by_role("navigation", name="Project", exact=True)
        unused = [menu.get_by_role("link", name=name) for name in ("Experiments", "Virtual currencies", "Test clocks")]
        for link in unused:
            await expect(link).to_be_hidden()
        # By the keyboard alone.
        await menu.get_by_text("More", exact=True).focus()
        await page.keyboard.press("Enter")
        for link in unused:
            await expect(link).to_be_visible()
        assert await page.eval_on_selector(".menu", BELOW_THE_EDGE) <= 0
        assert await serious_findings(page) == []
        await page.keyboard.press("Tab")
        await expect(unused[0]).to_be_focused()
        await page.keyboard.press("Enter")
        # The page where one is stands in its group.
        await expect(unused[0]).to_be_visible()
        await expect(unused[0]).to_have_attribute("aria-current", "page")
        await expect(unused[1]).to_be_hidden()
    # With the first one it is in its group on every page.
    await create_currency(site.database, new.id, "GOLD", "Gold", now=site.clock.now)
    shown = await Tab(person).open(start)
    assert "Virtual currencies" in shown.text("nav[aria-label=Project] details:nth-of-type(3)")
    assert "Virtual currencies" not in shown.text(".more-pages")
