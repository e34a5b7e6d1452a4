"""The accessibility checker axe: in a page as a browser shows it, and on the HTML of every template that tests saw."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.base import AXE_FILE_PATH
from playwright.async_api import Browser, Page
from starlette.responses import Response

from latchkey.dashboard.page import Visit
from latchkey.dashboard.static_files import FILES

AXE = Path(AXE_FILE_PATH).read_text()
# Only the rules whose findings are serious or critical: the others take a tenth of the time and nobody reads them.
RUN = """() => {
    const others = axe._audit.rules.filter(one => !['serious', 'critical'].includes(one.impact));
    const rules = Object.fromEntries(others.map(one => [one.id, {enabled: false}]));
    return axe.run(document, {resultTypes: ['violations'], rules});
}"""
WRITE = """html => {
    const copy = new DOMParser().parseFromString(html, 'text/html');
    for (const one of copy.querySelectorAll('script, noscript')) one.remove();
    for (const one of copy.querySelectorAll('details')) one.open = true;
    document.replaceChild(document.adoptNode(copy.documentElement), document.documentElement);
}"""
WIDER = "() => document.documentElement.scrollWidth - innerWidth"
DESK: dict[str, Any] = {}
PHONE_IN_THE_DARK: dict[str, Any] = {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}}
# By template and status.
Seen = dict[tuple[str, int], str]


async def serious_findings(page: Page) -> list[str]:
    """What the accessibility checker finds serious or critical on a page, in the present theme."""
    # After a click on a link, the next document may have begun without any content.
    await page.wait_for_load_state("domcontentloaded")
    await page.evaluate(AXE)
    return _serious(await page.evaluate(RUN))


@contextmanager
def seen_pages() -> Iterator[Seen]:
    """The largest page of each template that is sent until the end of the block."""
    seen: Seen = {}
    page = Visit.page

    def noted(visit: Visit, template: str, status: int | None = None, **values: Any) -> Response:
        response = page(visit, template, status, **values)
        html, key = bytes(response.body).decode(), (template, response.status_code)
        if len(html) > len(seen.get(key, "")):
            seen[key] = html
        return response

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Visit, "page", noted)
        yield seen


async def faults(browser: Browser, seen: Seen, checked: Path) -> list[str]:
    """What is wrong with these pages at a desk and on a phone in the dark, without their scripts. In `checked`, a
    folder that all test processes share, is a file for each page that one of them has looked at already."""
    found: list[str] = []
    seen = {key: html for key, html in seen.items() if _is_first(checked / f"{key[0]}-{key[1]}")}
    for options in (DESK, PHONE_IN_THE_DARK):
        context = await browser.new_context(reduced_motion="reduce", **options)
        checker = await context.new_page()
        await checker.set_content("<!doctype html><title>A page</title>")
        await checker.evaluate(AXE)
        for (template, status), html in seen.items():
            await checker.evaluate(WRITE, re.sub(r'<link rel="stylesheet" href="[^"]*/([^"/?]+)[^"]*">', _style, html))
            said = _serious(await checker.evaluate(RUN))
            if (wider := await checker.evaluate(WIDER)) > 0:
                said.append(f"{wider} pixels wider than the screen")
            found += [f"{template} ({status}): {one}" for one in said]
        await context.close()
    return found


def _is_first(mark: Path) -> bool:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _style(link: re.Match[str]) -> str:
    return f"<style>{FILES[link[1]][0].decode()}</style>"


def _serious(found: dict[str, Any]) -> list[str]:
    return [
        f"{one['id']}: {node['html'][:200]} ({node['failureSummary'][:300]})"
        for one in found["violations"]
        if one["impact"] in {"serious", "critical"}
        for node in one["nodes"]
    ]
