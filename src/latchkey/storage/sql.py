"""Named SQL: every query is in `queries/*.sql`, with a name and a line that says what it is for.

    -- name: load_customers
    -- the columns that a read needs, for several customers at once
    select ...

A module loads its queries at import (`LOAD = query("load_customers")`), so a misspelt name stops the program at start.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from latchkey.storage.errors import QueryNotNamedError

_NAME = re.compile(r"^--\s*name:\s*(?P<name>[a-z][a-z0-9_]*)\s*$")


class NamedQuery(NamedTuple):
    name: str
    purpose: str
    text: str
    source: str


def query(name: str) -> str:
    """The text of the query with this name."""
    try:
        return all_queries()[name].text
    except KeyError:
        raise QueryNotNamedError(f"No file in storage/queries defines `-- name: {name}`.") from None


@cache
def all_queries() -> dict[str, NamedQuery]:
    found: dict[str, NamedQuery] = {}
    folder = files("latchkey.storage") / "queries"
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".sql"):
            continue
        for named in parse(file.read_text(encoding="utf-8"), file.name):
            if named.name in found:
                raise QueryNotNamedError(f"{named.source} and {found[named.name].source} both define `{named.name}`.")
            found[named.name] = named
    return found


def parse(text: str, source: str) -> list[NamedQuery]:
    queries: list[NamedQuery] = []
    name: str | None = None
    lines: list[str] = []

    def finish() -> None:
        if name is not None:
            queries.append(_named(name, lines, source))
        elif any(line.strip() and not line.startswith("--") for line in lines):
            raise QueryNotNamedError(f"{source} has SQL before its first `-- name:` line.")

    for line in text.splitlines():
        if match := _NAME.match(line):
            finish()
            name, lines = match["name"], []
        else:
            lines.append(line)
    finish()
    return queries


def _named(name: str, lines: list[str], source: str) -> NamedQuery:
    if not lines or not lines[0].startswith("--") or not lines[0].strip("- "):
        raise QueryNotNamedError(f"`{name}` in {source} needs a `-- what it is for` line right under its name.")
    text = "\n".join(lines[1:]).strip().rstrip(";")
    if not text:
        raise QueryNotNamedError(f"`{name}` in {source} has no SQL.")
    return NamedQuery(name, lines[0].lstrip("- ").strip(), text, source)
