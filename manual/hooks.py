"""What MkDocs calls while it builds the site."""

from __future__ import annotations

import logging
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from latchkey.subjects.console.api import slug
from manual import api_reference
from manual.commonmark import adapted
from manual.links import DOCS, OTHERS, ROOT, rewritten

# In strict mode, MkDocs counts the warnings below its own name and fails.
log = logging.getLogger("mkdocs.manual")

_SOURCES = {page: source for source, page in OTHERS.items()}
# The start page, and the words on it that lead to the API reference.
_HOME, _API = "README.md", "every operation with examples"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Pages that nobody has put into the navigation are under How-to."""
    nav: list[Any] = config.nav or []
    listed = set(re.findall(r"[\w/.-]+\.md", str(nav)))
    unlisted = sorted(path.name for path in (ROOT / DOCS).glob("*.md") if path.name not in listed)
    for one in nav:
        if "How-to" in one:
            one["How-to"].extend(unlisted)
        if "Reference" in one:
            pages = [f"{api_reference.FOLDER}/{slug(tag)}.md" for tag in api_reference.areas()]
            one["Reference"].append({"API": [f"{api_reference.FOLDER}/README.md", *pages]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in OTHERS.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for page, content in api_reference.pages().items():
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    path = page.file.src_uri
    source = _SOURCES.get(path, f"{DOCS}/{path}")
    # The other generated pages link to pages of the site.
    made = rewritten(markdown, source, path, log.warning) if (ROOT / source).is_file() else markdown
    if path == _HOME:
        # The repository has no such page to link to.
        made = made.replace(_API, f"[{_API}]({api_reference.FOLDER}/README.md)")
    return adapted(made)
