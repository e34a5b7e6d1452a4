"""What a process knows of a distributed database: how each statement is called, and where projects are."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from time import monotonic
from typing import Any

from latchkey.storage.distribution import handlers
from latchkey.storage.distribution.functions import source_digest, wanted
from latchkey.storage.distribution.statements import ROUTES, Home, Route
from latchkey.storage.errors import SchemaNotMigratedError
from latchkey.storage.sql import query

_PROJECTS = query("projects_of_webhooks")
_SHARDS = query("a_project_of_each_shard")
# Seconds for which the list of shards is taken as current. A shard is split only by hand.
_CURRENT = 5.0


@dataclass(frozen=True, slots=True)
class HomeCall:
    text: str


@dataclass(frozen=True, slots=True)
class ShardCall:
    text: str
    route: Route
    name: str


class Directory:
    def __init__(self, calls: Mapping[str, Any], on_shards: Mapping[str, ShardCall]) -> None:
        # By the text of the statement. Those that are not here are sent as they are.
        self.calls = calls
        # By name.
        self.on_shards = on_shards
        self._projects: dict[int, str] = {}
        self._shards: list[str] = []
        self._looked_at = -_CURRENT

    async def projects_of(self, connection: Any, keys: Iterable[int]) -> Mapping[int, str]:
        """The projects of webhooks. A webhook never changes its project."""
        unknown = [key for key in keys if key not in self._projects]
        if unknown:
            self._projects.update({row["key"]: row["project_id"] for row in await connection.plain(_PROJECTS, unknown)})
        return self._projects

    async def one_of_each_shard(self, connection: Any) -> list[str]:
        """A project of each shard that has any, in a new order each time, so that no shard is always the last."""
        if monotonic() - self._looked_at > _CURRENT:
            self._shards = [row["id"] for row in await connection.plain(_SHARDS)]
            self._looked_at = monotonic()
        return random.sample(self._shards, len(self._shards))


@cache
def _digests() -> Mapping[str, str]:
    return {name: source_digest(name) for name in wanted()}


async def load(connection: Any) -> Directory:
    """Reads how statements are called. Raises if the database has not been migrated for this code."""
    rows = await connection.fetch("select name, digest, call from at_project.statements order by made_at")
    # Another release may have made others of the same name.
    made = {row["name"]: row for row in rows if row["digest"] == _digests().get(row["name"])}
    missing = [name for name in wanted() if name not in made]
    if missing:
        raise SchemaNotMigratedError(
            f"The distributed database lacks {len(missing)} statement(s) of this version (first: {missing[0]}). "
            "Run `latchkey migrate`."
        )
    calls: dict[str, Any] = {}
    on_shards: dict[str, ShardCall] = {}
    for name in wanted():
        route, text = ROUTES[name], made[name]["call"]
        if isinstance(route, Home):
            calls[query(name)] = HomeCall(text)
        else:
            calls[query(name)] = on_shards[name] = ShardCall(text, route, name)
    calls.update({query(name): handler for name, handler in handlers.HANDLERS.items()})
    return Directory(calls, on_shards)
