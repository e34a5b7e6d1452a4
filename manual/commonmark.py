"""Markdown as GitHub reads it, rewritten for Python-Markdown, which the site is built with.

Python-Markdown wants four spaces for what belongs to a list item, and a blank line before a list or a table. The files
stay as GitHub reads them.
"""

from __future__ import annotations

import re
import unicodedata

from markdown_it import MarkdownIt
from markdown_it.token import Token

_MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?: +|$)")
_BLOCKS = {"bullet_list_open", "ordered_list_open", "table_open"}
_PARSER = MarkdownIt("commonmark").enable("table")


def adapted(text: str) -> str:
    lines = text.split("\n")
    # Lines before which there must be a blank one.
    begins: set[int] = set()
    # How many spaces belong to the list items around a line, and how many items these are.
    widths, depths = [0] * len(lines), [0] * len(lines)
    for token in _PARSER.parse(text):
        if token.map is None:
            continue
        if token.type in _BLOCKS:
            begins.update(token.map)
        elif token.type == "list_item_open" and "" in lines[slice(*token.map)][:-1]:
            # After an item with several blocks.
            begins.add(token.map[1])
            _indent(lines, widths, depths, token)
        elif token.type == "list_item_open":
            _indent(lines, widths, depths, token)
    made: list[str] = []
    for number, line in enumerate(lines):
        if number in begins and made and made[-1].strip():
            made.append("")
        kept = len(line) - len(line.lstrip(" "))
        made.append(" " * (4 * depths[number]) + line[min(widths[number], kept) :] if line.strip() else "")
    return "\n".join(made)


def _indent(lines: list[str], widths: list[int], depths: list[int], item: Token) -> None:
    """Everything of the item but its first line moves in by one level; the first line keeps its marker."""
    assert item.map is not None
    first, end = item.map
    rest = lines[first][widths[first] :]
    spaces = len(rest) - len(rest.lstrip(" "))
    marker = _MARKER.match(rest.lstrip(" "))
    width = spaces + (len(marker[0]) if marker else 2)
    for number in range(first + 1, end):
        widths[number] += width
        depths[number] += 1


def slug(text: str, separator: str = "-") -> str:
    """The anchor of a heading, as GitHub makes it."""
    kept = "".join(
        one for one in text.strip().lower() if one in " -_" or unicodedata.category(one)[0] in ("L", "N", "M")
    )
    return kept.replace(" ", separator)
