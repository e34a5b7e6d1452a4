"""The site of the documentation: it builds without a warning, loads nothing from elsewhere, and can be searched."""

import functools
import http.server
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from playwright.async_api import Browser

from manual.api_reference import areas, titles_of
from manual.links import ROOT, rewritten
from tests.patience import PATIENCE

# One folder up. A test looks for such paths in all files and follows them.
UP = ".."


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make docs` builds it: a broken link or anchor is a warning, and with warnings it fails."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return folder


def counts(html: str) -> dict[str, int]:
    return {tag: len(re.findall(rf"<{tag}[ >]", html)) for tag in ("li", "pre", "table", "tr", "ol")}


def test_pages_have_the_lists_tables_and_blocks_that_github_shows(site: Path) -> None:
    parser = MarkdownIt("commonmark").enable("table")
    for path in sorted((ROOT / "docs").rglob("*.md")):
        expected = counts(parser.render(path.read_text(encoding="utf-8")))
        page = path.relative_to(ROOT / "docs").with_suffix(".html")
        built = (site / (page.with_name("index.html") if page.stem == "README" else page)).read_text(encoding="utf-8")
        article = built.split("<article", 1)[1].split("</article>", 1)[0]
        assert counts(article) == expected, path


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    for path in site.rglob("*.html"):
        html = path.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe|link)[^>]+(?:src|href)=\"?(https?:[^\" >]+)", html)
        assert not [one for one in loaded if "rel=canonical" not in one], path


def test_the_start_page_leads_to_every_page(site: Path) -> None:
    """The pages about the architecture and the areas of the API have an index of their own."""
    home = (site / "index.html").read_text(encoding="utf-8").split("<article", 1)[1].split("</article>", 1)[0]
    linked = {path.partition("#")[0] for path in re.findall(r'href="?([^" >]+)', home)}
    assert {"api/index.html", "architecture/index.html"} <= {
        one.removesuffix("/") + ("" if "." in one else "/index.html") for one in linked
    }
    listed = [path for path in site.rglob("*.html") if path.parent.name not in ("api", "architecture")]
    named = {str(path.relative_to(site)) for path in listed} - {"index.html", "404.html"}
    assert named - linked == set()


def test_every_operation_of_the_api_is_there_with_an_example(site: Path) -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (site / "api").glob("*.html"))
    assert "GET /v1/subscribers/{app_user_id}" in pages
    assert "active_entitlements" in pages
    assert pages.count("<h2") > 150


def test_the_operations_of_an_area_have_titles_that_tell_them_apart() -> None:
    for operations in areas().values():
        titles = titles_of(operations)
        assert len(set(titles)) == len(titles), titles


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


async def test_the_site_is_searched_without_a_network(served: str, browser: Browser) -> None:
    page = await (await browser.new_context()).new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    try:
        await page.goto(f"{served}/index.html")
        await page.locator("[data-md-component=search-query]").first.fill("rotate signing secret")
        result = page.locator(".md-search-result__item").first
        await result.wait_for()
        assert "secret" in (await result.inner_text()).lower()
        assert not [url for url in asked if not url.startswith((served, "blob:", "data:"))]
    finally:
        await page.context.close()


# How Markdown for GitHub becomes Markdown for the site.


def test_links_lead_to_pages_or_are_named_as_files() -> None:
    missing: list[str] = []

    def link(target: str, source: str = "docs/webhooks.md", page: str = "webhooks.md") -> str:
        return rewritten(f"[x]({target})", source, page, missing.append)

    assert link(f"{UP}/README.md#how-fast") == "[x](overview.md#how-fast)"
    assert link("docs/cli.md", "README.md", "overview.md") == "[x](cli.md)"
    assert link(f"{UP}/import.md", "docs/architecture/catalog.md", "architecture/catalog.md") == f"[x]({UP}/import.md)"
    assert link(f"{UP}/deploy/proxy/nginx.conf") == "x (`deploy/proxy/nginx.conf` in the repository)"
    assert link("https://example.com") == "[x](https://example.com)"
    assert rewritten("```\n[x](nowhere.md)\n```", "docs/a.md", "a.md", missing.append).count("[x]") == 1
    assert missing == []
    link("nowhere.md")
    assert missing == ["docs/webhooks.md links to nowhere.md, which does not exist"]
