"""The pages of all charts, compared with the computed charts; their pictures and forms in a browser."""

import csv
import io
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from playwright.async_api import Browser, Page, expect

from latchkey.dashboard.form import Form
from latchkey.engine.clock import pass_time
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.charts.page.presentation import listed
from latchkey.subjects.charts.page.view import Offered, ViewEnvironment, view_of
from latchkey.subjects.charts.rules.chart import ChartData, Value
from latchkey.subjects.charts.rules.definition import BY_NAME, CHARTS, Choice, Drawing, Unit
from latchkey.subjects.charts.storage.fact_cache import FactCache, default_folder
from latchkey.subjects.charts.usecases import read_chart
from tests.dashboard.site import Site, Visitor, opened, serious_findings, visiting
from tests.dashboard.tab import Tab, tab
from tests.databases import Shelf
from tests.http.client import DAY
from tests.http.management import post

PHONE = {"width": 390, "height": 844}
TABLET = {"width": 820, "height": 1180}
WIDE = {"width": 1440, "height": 900}
# One page of each kind.
KINDS = (
    "",
    "/charts",
    "/charts/mrr?range=28d",
    "/charts/mrr_movement?range=28d",
    "/charts/revenue?range=28d&segment=product&filter.store=test_store&add_filter=product",
    "/charts/refund_rate?range=28d&segment=product",
    "/charts/subscription_retention",
    "/charts/subscription_status?segment=product",
    "/charts/experiment_results",
)
SMALLEST_TEXT = """() => Math.min(...[...document.querySelectorAll('.frame text, .y-axis span, .legend li')]
    .filter(one => one.checkVisibility()).map(one => parseFloat(getComputedStyle(one).fontSize)))"""


@pytest.fixture(scope="module")
async def site(shelf: Shelf, short_folder: Path) -> AsyncIterator[Site]:
    """A shop that has sold something of everything for ten weeks."""
    async with shelf.lend() as database, opened(database, short_folder, deliver=False) as site:
        now = site.clock.now
        await _sell(site)
        assert site.clock.now == now
        yield site


async def _sell(site: Site) -> None:
    catalogs = Catalogs()
    variants = [{"id": one, "weight": 1} for one in ("control", "yearly_first")]
    reply = await post(site, "experiments", {"name": "Paywall", "variants": variants})
    assert reply.status == 201, reply
    experiment = reply.json()["id"]
    site.clock.now -= 70 * DAY
    for week in range(10):
        for number, product in enumerate(("pro_monthly", "pro_yearly", "team_monthly", "coins_100")):
            who = f"user-{week}-{number}"
            trial = product == "pro_monthly" and week % 2 == 0
            await site.act("purchase", who, product, environment="PRODUCTION", trial=trial)
            reply = await post(site, f"experiments/{experiment}/enroll", {"app_user_id": who})
            assert reply.status == 200, reply
        if week == 3:
            await site.act("refund", "user-2-1", "pro_yearly")
            await site.act("fail_billing", "user-1-2", "team_monthly", grace_days=6)
        if week == 4:
            await site.act("recover_billing", "user-1-2", "team_monthly")
            await site.act("cancel", "user-3-0", "pro_monthly")
        site.clock.now += 7 * DAY
        while await pass_time(site.database, catalogs, site.clock.now):
            pass
    await site.act("purchase", "sandy", "pro_monthly")


async def chart(site: Site, facts: FactCache, name: str) -> ChartData:
    """As the page asks for it."""
    experiments = (await site.client.get(f"/v2/projects/{site.project_id}/experiments")).json()["items"]
    offered = Offered(
        environments=[ViewEnvironment(one, one, site.clock.now) for one in ("PRODUCTION", "SANDBOX")],
        dimensions={},
        experiments=tuple(Choice(one["id"], one["name"]) for one in experiments),
        usual="PRODUCTION",
    )
    request = view_of(BY_NAME[name], Form([]), offered).request
    return await read_chart(facts, site.project_id, request, site.clock.now)


def number(text: str) -> float | None:
    """What a cell says: "−$1,234.50", "12.5 %", "7"."""
    if text in ("–", ""):
        return None
    return float(re.sub(r"[^\d.\-]", "", text.replace("−", "-")))


def told(value: Value, unit: Unit) -> float | None:
    """What a cell says of a value, to as many digits as it has."""
    if value is None:
        return None
    return round(value / 1e6, 2) if unit is Unit.MONEY else round(value * 100, 1) if unit is Unit.SHARE else value


async def rows(page: Page) -> list[list[str]]:
    return rows_of(BeautifulSoup(await page.content(), "html.parser"))


def rows_of(soup: BeautifulSoup) -> list[list[str]]:
    """The cells of the table of numbers, without what stands small below a number."""
    return [
        [str(next(iter(cell.stripped_strings), "")) for cell in row.select("th, td")]
        for row in soup.select("#numbers tbody tr")
    ]


def expected(data: ChartData) -> list[list[float | None]]:
    """The numbers of the table, the oldest period first, without those of the period before."""
    return [[told(one.values[place], one.unit) for one in listed(data)] for place in range(len(data.periods))]


def shown(page: Tab) -> list[list[float | None]]:
    heads = page.texts("#numbers thead th")
    kept = [place for place, head in enumerate(heads) if place and "period before" not in head]
    return [[number(row[place]) for place in kept] for row in reversed(rows_of(page.soup))]


async def test_every_chart_has_a_page_whose_table_has_its_numbers(site: Site) -> None:
    page = await tab(site, Role.VIEWER, "/charts")
    assert len(page.soup.select(".chart-list a")) == len(CHARTS)
    # Every card has a picture: those without a line over time too.
    for name in ("subscription_retention", "cohort_explorer", "subscription_status", "experiment_results"):
        assert page.soup.select(f"#chart-{name} svg :is(rect, circle)"), name
    facts = FactCache(site.database, default_folder())
    for one in CHARTS:
        await page.open(f"/charts/{one.name}")
        assert page.heading == one.title
        assert one.words in page.text(".meaning")
        data = await chart(site, facts, one.name)
        assert not data.is_empty or one.name == "billing_recovery"
        if data.heat_map is not None:
            cells = [row[1:] for row in rows_of(page.soup)]
            whole = [data.heat_map.total, *data.heat_map.rows]
            assert [number(row[0]) for row in cells] == [row.size for row in whole]
            money = data.heat_map.unit is Unit.MONEY
            assert [[number(cell) for cell in row[1:]] for row in cells] == [
                [told(cell.value, Unit.MONEY) if money else told(cell.share, Unit.SHARE) for cell in row.cells]
                for row in whole
            ]
        elif data.drawing is Drawing.INTERVALS:
            assert [[number(cell) for cell in row[1:5]] for row in rows_of(page.soup)] == [
                [one.customers, one.converted, one.payers, told(one.revenue, Unit.MONEY)] for one in data.variants
            ]
        else:
            assert shown(page) == expected(data), one.name


@pytest.mark.parametrize(("viewport", "scheme"), [(PHONE, "dark"), (TABLET, "light")], ids=["phone", "tablet"])
async def test_each_kind_of_page_is_legible_and_accessible(
    site: Site, browser: Browser, viewport: dict[str, int], scheme: Any
) -> None:
    async with visiting(browser, site, viewport=viewport, color_scheme=scheme, has_touch=True) as visitor:
        page = await visitor.open("")
        for path in KINDS:
            await page.goto(site.path(path))
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            if await page.locator(".frame").count():
                assert await page.evaluate(SMALLEST_TEXT) >= 11, path
            assert await serious_findings(page) == [], path


async def test_tooltips_by_keyboard_pointer_and_touch(site: Site, browser: Browser) -> None:
    async with visiting(browser, site, viewport=WIDE, color_scheme="dark", has_touch=True) as visitor:
        page = await visitor.open("/charts/mrr_movement?range=28d")
        told = {row[0]: row[1:] for row in await rows(page)}
        days = [row[0] for row in await rows(page)]
        plot, tip = page.get_by_role("slider", name=re.compile("MRR movement")), page.locator(".tip")
        await expect(tip).to_be_hidden()

        await plot.focus()
        await page.keyboard.press("ArrowLeft")
        await expect(tip).to_contain_text(days[1])
        for cell in told[days[1]]:
            await expect(tip).to_contain_text(cell)
        # A screen reader says the value of the slider.
        said = await plot.get_attribute("aria-valuetext")
        assert said is not None
        assert said.startswith(f"{days[1]}, New {told[days[1]][0]}, ")
        await page.keyboard.press("Home")
        await expect(tip).to_contain_text(days[-1])
        await page.keyboard.press("PageUp")
        await expect(tip).to_contain_text(days[-4])
        await page.keyboard.press("End")
        await expect(tip).to_contain_text(days[0])
        assert await serious_findings(page) == []
        await page.keyboard.press("Escape")
        await expect(tip).to_be_hidden()
        await page.evaluate("document.activeElement.blur()")

        box = await plot.bounding_box()
        assert box is not None
        column = box["width"] / len(days)
        await page.mouse.move(box["x"] + column * 7.5, box["y"] + 20)
        await expect(tip).to_contain_text(days[-8])
        await page.mouse.move(box["x"] + column * 7.5, box["y"] - 60)
        await expect(tip).to_be_hidden()

        await page.touchscreen.tap(box["x"] + column * 2.5, box["y"] + 20)
        await expect(tip).to_contain_text(days[-3])
        place = await tip.bounding_box()
        assert place is not None
        assert place["x"] >= 0
        await page.touchscreen.tap(5, 5)
        await expect(tip).to_be_hidden()


async def test_what_was_chosen_is_in_the_address_and_another_browser_shows_the_same(site: Site, owner: Visitor) -> None:
    page = await owner.open("/charts/revenue")
    await page.get_by_label("Break down by").select_option("product")
    await expect(page).to_have_url(re.compile("segment=product"))
    await page.get_by_label("Add a filter").select_option("product")
    values = page.get_by_role("group", name="Product")
    await values.get_by_label("pro_monthly").check()
    await values.get_by_label("pro_yearly").check()
    await values.get_by_role("button", name="Apply").click()
    await expect(page).to_have_url(re.compile(r"filter\.product=pro_yearly"))
    await page.get_by_label("From", exact=True).fill("2026-12-01")
    await expect(page).to_have_url(re.compile("from=2026-12-01"))
    assert await page.get_by_label("Dates").input_value() == "dates"
    await page.get_by_label("By", exact=True).select_option("week")
    await expect(page).to_have_url(re.compile("by=week"))
    await expect(page.locator(".asked")).to_contain_text("Product: pro_monthly or pro_yearly")
    legend = page.locator(".legend")
    await expect(legend).to_contain_text("pro_yearly")
    await expect(legend).not_to_contain_text("coins_100")
    seen, address = await rows(page), page.url

    # The same address and the same form without a script.
    plain = await tab(site, Role.VIEWER, address.removeprefix(site.url))
    assert rows_of(plain.soup) == seen
    await plain.press("Show", {"By": "month"})
    assert "by=month" in plain.path
    assert "by month · broken down by product" in plain.text(".asked")
    await plain.follow("Remove this filter")
    assert "coins_100" in plain.text(".legend")
    assert plain.soup.select(".plot[role=img][aria-label]")
    # Dates that make no sense are explained.
    await plain.open("/charts/mrr?from=2027-02-01&to=2027-01-01")
    assert plain.alert == "The first day is after the last one."
    # The sandbox is another world.
    await plain.open("/charts/actives?environment=sandbox")
    assert rows_of(plain.soup)[0][1] == "1"


async def test_the_numbers_can_be_downloaded(site: Site) -> None:
    page = await tab(site, Role.VIEWER, "/charts/actives?range=28d&compare=no")
    numbers = shown(page)
    await page.follow("CSV")
    assert 'filename="actives-production-2026-12-19-2027-01-15.csv"' in page.headers["content-disposition"]
    table = list(csv.reader(io.StringIO(page.html)))
    assert table[0] == ["first_day", "last_day", "complete", "Active subscriptions"]
    assert [[float(cell) for cell in row[3:]] for row in table[1:]] == numbers


async def test_a_chart_prints_on_one_sheet_with_its_legend_and_its_numbers_after_it(site: Site, owner: Visitor) -> None:
    page = await owner.open("/charts")
    for path in KINDS[2:]:
        await page.goto(site.path(path))
        await page.emulate_media(media="print")
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.locator("form:visible")).to_have_count(0)
        if await page.locator(".legend").count():
            await expect(page.locator(".legend")).to_be_visible()
        long = await page.locator(".chart-numbers.long").count()
        await expect(page.locator("#numbers tbody tr").last).to_be_visible()
        printed = await page.pdf(format="A4", prefer_css_page_size=True, print_background=True)
        # 28 days are a table on a sheet of its own.
        assert re.findall(rb"/Count (\d+)", printed)[0] == (b"2" if long else b"1"), path
        await page.emulate_media(media="screen")


async def test_a_chart_that_does_not_exist_is_not_found(site: Site) -> None:
    for path in ("/charts/moon", "/charts/moon/table.csv"):
        assert (await tab(site, Role.OWNER, path)).status == 404
