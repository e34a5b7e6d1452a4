"""The marked code blocks of the tutorials."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
_BLOCK = re.compile(r"<!-- (?P<mark>[^>]+?) -->\n```(?P<language>\w+)\n(?P<code>.*?)```", re.DOTALL)


def marked(page: str) -> dict[str, list[str]]:
    """The blocks of a page below a comment such as `<!-- file: app.py -->`, by the comment's text."""
    found: dict[str, list[str]] = {}
    for one in _BLOCK.finditer((FOLDER / page).read_text(encoding="utf-8")):
        found.setdefault(one["mark"], []).append(one["code"])
    return found


def only(page: str, mark: str) -> str:
    (code,) = marked(page)[mark]
    return code
