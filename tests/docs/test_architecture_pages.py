"""Pages for those who build Latchkey: the index leads to each of them, and the tests and files that they name exist."""

import re

from tests.tracked import ROOT

PAGES = sorted((ROOT / "docs" / "architecture").glob("*.md"))
_NAMED = re.compile(r"`(test_[a-z0-9_]+)`")
_PATH = re.compile(r"`((?:src/latchkey|tests|bench|contract|deploy|clients|examples|manual)/[\w./-]+)`")
_TEST = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)


def test_pages_name_tests_that_exist() -> None:
    tests = {name for path in (ROOT / "tests").rglob("test_*.py") for name in _TEST.findall(path.read_text("utf-8"))}
    gone = [
        f"{page.name}: {name}"
        for page in PAGES
        for name in _NAMED.findall(page.read_text("utf-8"))
        if name not in tests
    ]
    assert not gone


def test_every_page_names_tests_and_is_in_the_index() -> None:
    index = (ROOT / "docs" / "architecture" / "README.md").read_text("utf-8")
    for page in PAGES:
        if page.name == "README.md":
            continue
        assert f"]({page.name})" in index, page.name
        assert _NAMED.search(page.read_text("utf-8").partition("## Held by")[2]), page.name


def test_pages_name_files_that_exist() -> None:
    pages = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
    named = [(page.name, path) for page in pages for path in _PATH.findall(page.read_text("utf-8"))]
    assert not [one for one in named if not (ROOT / one[1]).exists()]


def test_the_everyday_changes_name_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Five everyday changes")[2].partition("\n## ")[0]
    named = [path for path in re.findall(r"`([\w.]+(?:/[\w.]+)+/?)`", text) if "widgets" not in path]
    assert named
    assert not [path for path in named if not any((root / path).exists() for root in (ROOT, ROOT / "src" / "latchkey"))]
