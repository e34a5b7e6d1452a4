"""The accessibility checker says of the copy of a page what it says of the page itself."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Browser

from tests.dashboard.accessibility import check, check_here, serious_findings
from tests.dashboard.site import Site, visiting
from tests.patience import PATIENCE

KINDS = ("violations", "incomplete", "passes")
PHONE = {"width": 390, "height": 800}
GOOD = """<!doctype html><html lang="en"><head><title>Good</title><style>
    body { color: #000; background: #fff; }
    @media (prefers-color-scheme: dark) { body { color: #fff; background: #000; } .dim { color: #222; } }
    @media (max-width: 400px) { .small { color: #ddd; } }
    </style></head><body><main><h1>Good</h1>%s</main></body></html>"""
DARK, SMALL = {"color_scheme": "dark"}, {"viewport": PHONE}


def counted(found: dict[str, Any]) -> dict[tuple[str, str, str], int]:
    """How many elements each rule has looked at, by its outcome."""
    return {(kind, one["id"], str(one["impact"])): len(one["nodes"]) for kind in KINDS for one in found[kind]}


@pytest.mark.parametrize(
    ("part", "options", "rule"),
    [
        ("<p>Nothing</p>", {}, None),
        ("<input>", {}, "label"),
        ("<button></button>", {}, "button-name"),
        ('<p style="color: #ddd">Pale</p>', {}, "color-contrast"),
        ('<p class="dim">Pale in the dark</p>', {}, None),
        ('<p class="dim">Pale in the dark</p>', DARK, "color-contrast"),
        ('<p class="small">Pale on a phone</p>', {}, None),
        ('<p class="small">Pale on a phone</p>', SMALL, "color-contrast"),
        ('<label>Name <input style="color: #ddd" value="Pale"></label>', {}, "color-contrast"),
        ("<noscript><input></noscript>", {}, None),
        ('<dialog open aria-label="Asked"><input></dialog>', {}, "label"),
    ],
)
async def test_a_fault_is_found_where_it_is(
    browser: Browser, part: str, options: dict[str, Any], rule: str | None
) -> None:
    context = await browser.new_context(reduced_motion="reduce", **options)
    page = await context.new_page()
    await page.set_content(GOOD % part)
    assert [one.partition(":")[0] for one in await serious_findings(page)] == ([rule] if rule else [])
    await context.close()


async def test_no_fault_of_one_page_is_left_for_the_next(browser: Browser) -> None:
    context = await browser.new_context(reduced_motion="reduce")
    page = await context.new_page()
    for text, rules in (("<html><body><input>", {"document-title", "html-has-lang", "label"}), (GOOD % "", set())):
        await page.set_content(text)
        assert {one.partition(":")[0] for one in await serious_findings(page)} == rules
    await context.close()


@pytest.mark.parametrize(
    ("path", "options"),
    [("", {}), ("/webhooks/new", {**DARK, **SMALL}), ("/catalog/offerings", {})],
)
async def test_a_page_of_the_dashboard_is_checked_as_it_is(
    site: Site, browser: Browser, path: str, options: dict[str, Any]
) -> None:
    async with visiting(browser, site, **options) as visitor:
        page = await visitor.open(path)
        await page.locator("h1").wait_for(timeout=PATIENCE * 1000)
        copied = counted(await check(page, *KINDS))
        assert copied == counted(await check_here(page, *KINDS))
        assert {"color-contrast", "label"} & {rule for kind, rule, _ in copied if kind == "passes"}
