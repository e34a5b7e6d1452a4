"""The accessibility checker axe, run on copies of pages in one tab for the whole test process.

Loading axe into every page took most of its time: 0.45 s of CPU for a page, with the copy 0.15 s. The copy has the
document as scripts have left it, what is in its fields, the focus, the size of the window and the theme. Styles come
from the dashboard's files. `test_accessibility.py` compares the results with those of axe in the page itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from axe_playwright_python.base import AXE_FILE_PATH
from playwright.async_api import Browser, Page, Route

from latchkey.dashboard.pages.static import FILES

AXE = Path(AXE_FILE_PATH).read_text()
RUN = "types => axe.run(document, {resultTypes: types})"
STATIC = "/dashboard/static/"
_checkers: WeakKeyDictionary[Browser, Page] = WeakKeyDictionary()

# None where a copy would not show the same: parts outside of the document's tree.
READ = """() => {
    const all = [...document.querySelectorAll('*:not(script)')];
    if (all.some(one => one.shadowRoot || one.matches('iframe, dialog[open], [popover]'))) return null;
    return {
        html: document.documentElement.outerHTML,
        fields: [...document.querySelectorAll('input, select, textarea')].map(one => [one.value, one.checked]),
        focus: all.indexOf(document.activeElement),
        dark: matchMedia('(prefers-color-scheme: dark)').matches,
        width: innerWidth,
        height: innerHeight,
    };
}"""

WRITE = """async ({html, fields, focus}) => {
    const copy = new DOMParser().parseFromString(html, 'text/html');
    // Parsed as if scripts were off, which they are not.
    for (const one of copy.querySelectorAll('noscript')) one.textContent = one.innerHTML;
    for (const one of copy.querySelectorAll('script')) one.remove();
    const root = document.documentElement;
    for (const one of [...root.attributes]) root.removeAttribute(one.name);
    for (const one of copy.documentElement.attributes) root.setAttribute(one.name, one.value);
    // Styles that are loaded already stay: an empty page would be shown while they load again.
    const styles = new Map([...document.head.querySelectorAll('link[rel=stylesheet]')].map(
        one => [one.getAttribute('href'), one]));
    const loading = [];
    const head = [...copy.head.children].map(one => {
        if (!one.matches('link[rel=stylesheet]')) return document.importNode(one, true);
        const known = styles.get(one.getAttribute('href'));
        if (known) return known;
        const made = document.importNode(one, true);
        loading.push(new Promise((done, failed) => { made.onload = done; made.onerror = failed; }));
        return made;
    });
    for (const one of [...document.head.children]) if (!head.includes(one)) one.remove();
    head.forEach((one, place) => {
        const there = document.head.children[place] ?? null;
        if (there !== one) document.head.insertBefore(one, there);
    });
    document.body.replaceWith(document.importNode(copy.body, true));
    await Promise.all(loading);
    [...document.querySelectorAll('input, select, textarea')].forEach((one, number) => {
        if (one.type !== 'file') one.value = fields[number][0];
        one.checked = fields[number][1];
    });
    scrollTo(0, 0);
    [...document.querySelectorAll('*')][focus]?.focus({preventScroll: true});
}"""


async def serious_findings(page: Page) -> list[str]:
    """What the accessibility checker finds serious or critical on a page, in the present theme."""
    found = await check(page, "violations")
    return [
        f"{one['id']}: {node['html'][:200]} ({node['failureSummary'][:300]})"
        for one in found["violations"]
        if one["impact"] in {"serious", "critical"}
        for node in one["nodes"]
    ]


async def check(page: Page, *types: str) -> dict[str, Any]:
    """What axe says of a page: its `violations`, `passes` or others."""
    # After a click on a link, the next document may have begun without any content.
    await page.wait_for_load_state("domcontentloaded")
    shown = await page.evaluate(READ)
    if shown is None:
        return await check_here(page, *types)
    assert page.context.browser is not None
    checker = await _checker(page.context.browser)
    await checker.set_viewport_size({"width": shown["width"], "height": shown["height"]})
    await checker.emulate_media(color_scheme="dark" if shown["dark"] else "light", reduced_motion="reduce")
    await checker.evaluate(WRITE, shown)
    found: dict[str, Any] = await checker.evaluate(RUN, list(types))
    return found


async def check_here(page: Page, *types: str) -> dict[str, Any]:
    """The same in the page itself, without a copy."""
    await page.evaluate(AXE)
    found: dict[str, Any] = await page.evaluate(RUN, list(types))
    return found


async def _checker(browser: Browser) -> Page:
    if browser not in _checkers:
        context = await browser.new_context(reduced_motion="reduce", bypass_csp=True)
        await context.route("**/*", _answer)
        page = await context.new_page()
        await page.goto("https://copies.test/")
        await page.evaluate(AXE)
        _checkers[browser] = page
    return _checkers[browser]


async def _answer(route: Route) -> None:
    path = urlsplit(route.request.url).path
    body, kind = FILES.get(path.removeprefix(STATIC), (b"", "text/html"))
    if path == "/" or body:
        await route.fulfill(body=body or b"<!doctype html><title>copies</title>", content_type=kind)
    else:
        await route.abort()
