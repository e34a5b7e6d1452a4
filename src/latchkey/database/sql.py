"""Named SQL: every query is in a `.sql` file, with a name and a line that says what it is for.

    -- name: load_customers
    -- the columns that a read needs, for several customers at once
    select ...

What several queries share is a part, which stands once: `-- part: product_columns`, and `{product_columns}` where it is
used, in any file. `{due_rows of checkouts by check_at}` puts these names in the places of `<table>` and `<column>`.

Code names a query where it runs it, `connection.fetch(query(name), …)`; a test checks that every name is
defined. A file without names, such as a migration, is none of this module's.
"""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import json

import latchkey
from latchkey.database.errors import QueryNotNamedError

_NAME = re.compile(r"^--\s*(?P<kind>name|part):\s*(?P<name>[a-z][a-z0-9_]*)[ \t]*$", re.MULTILINE)
_USED = re.compile(r"\{([a-z_]+)(?: of ([a-z_]+))?(?: by ([a-z_]+))?\}")
# The folders of the package that have queries, at any depth.
_FOLDERS = ("database", "engine", "observability", "subjects")


class NamedQuery(NamedTuple):
    name: str
    purpose: str
    text: str
    source: str


def affected(tag: str) -> int:
    """How many rows a statement has changed, by what PostgreSQL answers: `DELETE 3`."""
    return int(tag.rsplit(" ", 1)[-1])


@cache
def query(name: str) -> str:
    try:
        return all_queries()[name].text
    except KeyError:
        raise QueryNotNamedError(f"No .sql file defines `-- name: {name}`.") from None


@cache
def all_queries() -> dict[str, NamedQuery]:
    found: dict[str, NamedQuery] = {}
    package = Path(latchkey.__file__).parent
    texts = {
        file.relative_to(package).as_posix(): file.read_text(encoding="utf-8")
        for folder in _FOLDERS
        for file in (package / folder).rglob("*.sql")
    }
    parts: dict[str, str] = {}
    sources = sorted(source for source, text in texts.items() if _NAME.search(text))
    read = [named for source in sources for named in parse(texts[source], source, parts)]
    for named in read:
        if named.name in found:
            raise QueryNotNamedError(f"{named.source} and {found[named.name].source} both define `{named.name}`.")
        found[named.name] = named._replace(text=_USED.sub(lambda used: _part(parts, used), named.text))
    return found


def _part(parts: dict[str, str], used: re.Match[str]) -> str:
    part, table, column = used.groups("")
    return parts[part].replace("<table>", table).replace("<column>", column)


def parse(text: str, source: str, parts: dict[str, str] | None = None) -> list[NamedQuery]:
    """The queries of a file. Adds what it has to the parts."""
    before, *found = _NAME.split(text)
    if any(line.strip() and not line.startswith("--") for line in before.splitlines()):
        raise QueryNotNamedError(f"{source} has SQL before its first `-- name:` line.")
    queries: list[NamedQuery] = []
    for kind, name, body in zip(found[::3], found[1::3], found[2::3], strict=True):
        if kind == "name":
            queries.append(_named(name, body.splitlines()[1:], source))
        elif parts is not None:
            parts[name] = body.strip()
    return queries


def _named(name: str, lines: list[str], source: str) -> NamedQuery:
    if not lines or not lines[0].startswith("--") or not lines[0].strip("- "):
        raise QueryNotNamedError(f"`{name}` in {source} needs a `-- what it is for` line right under its name.")
    text = "\n".join(lines[1:]).strip().rstrip(";")
    if not text:
        raise QueryNotNamedError(f"`{name}` in {source} has no SQL.")
    return NamedQuery(name, lines[0].lstrip("- ").strip(), text, source)


_CONTROL = re.compile(r"[\x00-\x1f]")


def notation(values: Sequence[str | int | None]) -> str:
    """Texts, numbers, booleans and nulls as an array in PostgreSQL's notation, for `$1::text::bigint[]`. For each
    element of a list the driver would ask two abstract base classes, in Python, whether it is a list itself: 0.5 to
    1 µs."""
    # The same as JSON but for its brackets, and for what JSON escapes.
    made = json.encode(values).decode()[1:-1]
    return "{" + (",".join(map(_escaped, values)) if "\\" in made else made) + "}"


def values_of(notation: str) -> list[Any]:
    """The other way round."""
    values: list[Any] = json.decode(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", f"[{notation[1:-1]}]"))
    return values


def _escaped(value: str | int | None) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return json.encode(value).decode()
