"""The migrations of this code, read from `migrations/`.

    0014_name.sql         runs before processes of this release start; processes of the release before keep working
    0014_name.after.sql   optional; runs when no process of the release before is left

A file that builds an index on an existing table says `create index concurrently`, and holds only such statements.
docs/architecture/migrations.md says what belongs in which file. A file never changes once it is released.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

_FILE = re.compile(r"^(?P<version>\d{4})_(?P<name>[a-z0-9_]+)(?P<after>\.after)?\.sql$")
_COMMENT = re.compile(r"--.*$", re.MULTILINE)
_INDEX = re.compile(r"create\s+(?:unique\s+)?index\s+concurrently\s+(?P<name>[a-z0-9_]+)\s+on\s", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Migration:
    """One file."""

    version: int
    name: str
    text: str
    after: bool = False

    @property
    def label(self) -> str:
        return f"{self.version:04d}_{self.name}{'.after' if self.after else ''}"

    @property
    def checksum(self) -> str:
        return sha256(self.text.encode()).hexdigest()

    def concurrent_indexes(self) -> list[tuple[str, str]]:
        """The indexes to build outside a transaction, each with its statement."""
        bare = _COMMENT.sub("", self.text)
        if not re.search(r"\bconcurrently\b", bare, re.IGNORECASE):
            return []
        found = []
        for statement in filter(None, map(str.strip, bare.split(";"))):
            match = _INDEX.match(statement)
            if match is None:
                raise ValueError(f"{self.label} builds an index concurrently, so it may hold only such statements.")
            found.append((match["name"], statement))
        return found


@cache
def migrations() -> tuple[Migration, ...]:
    """All of them by number; the after part of a number follows its first part."""
    return in_order(
        Migration(int(match["version"]), match["name"], file.read_text(encoding="utf-8"), bool(match["after"]))
        for file in (files("latchkey.storage") / "migrations").iterdir()
        if (match := _FILE.match(file.name))
    )


def in_order(found: Iterable[Migration]) -> tuple[Migration, ...]:
    ordered = sorted(found, key=lambda one: (one.version, one.after))
    first = {one.version: one.name for one in ordered if not one.after}
    if [one.version for one in ordered if not one.after] != list(range(1, len(first) + 1)):
        raise ValueError("Migrations must be numbered 0001, 0002, ... without a gap or a repetition.")
    for one in ordered:
        if first.get(one.version) != one.name:
            raise ValueError(f"{one.label}.sql needs a {one.version:04d}_{one.name}.sql beside it.")
    return tuple(ordered)


_PIECE = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\$(?P<tag>[a-z_]*)\$.*?\$(?P=tag)\$|;", re.DOTALL | re.IGNORECASE)


def commands(text: str) -> list[str]:
    """The commands of a file, one by one. A distributed database takes no two in one message."""
    found, start = [], 0
    for match in _PIECE.finditer(text):
        if match[0] == ";":
            found.append(text[start : match.start()])
            start = match.end()
    found.append(text[start:])
    return [one.strip() for one in found if _COMMENT.sub("", one).strip()]
