"""What a process knows of a distributed database: how each statement is called, and where projects are."""

import random
from collections.abc import Iterable, Mapping
from functools import cache
from time import monotonic
from typing import Any
from weakref import WeakSet

from msgspec import Struct

from latchkey.database.distribution import result_merge
from latchkey.database.distribution.functions import direct_call, is_asked_of_nodes, only_reads, source_digest, wanted
from latchkey.database.distribution.nodes import Away, NodeAddress, Nodes
from latchkey.database.distribution.statements import Home, Route, routes
from latchkey.database.errors import SchemaError
from latchkey.database.sql import query

# Seconds for which the list of shards is taken as current, and the node of a project. A shard is split only by hand; a
# node that a project has left refuses its reads.
_CURRENT = 5.0
# Projects whose nodes are remembered, and keys whose projects are.
_REMEMBERED = 10_000


class ShardCall(Struct, frozen=True):
    text: str
    route: Route
    name: str
    # How a node is asked itself, with the number of the shard for `{shard}`. None: it changes or locks something.
    direct: str | None = None
    # How a node is asked about all of its shards.
    on_node: str | None = None


class Directory:
    # Set by the cluster, which makes their connections.
    nodes: Nodes
    away: Away

    def __init__(self, calls: Mapping[str, Any], on_shards: Mapping[str, ShardCall]) -> None:
        # By the text of the statement. Those that are not here are sent as they are.
        self.calls = calls
        # By name.
        self.on_shards = on_shards
        # Connections that are closed when they are released: see `at_project.refuse`.
        self.spoiled: WeakSet[Any] = WeakSet()
        # By the hash of a key.
        self.project_of_key: dict[bytes, str] = {}
        self._projects: dict[int, str] = {}
        self._node_of: dict[str, tuple[tuple[NodeAddress, int] | None, float]] = {}
        self._shards: list[str] = []
        self._looked_at = -_CURRENT
        self._with_shards: list[NodeAddress | None] = []
        self._asked_at = -_CURRENT

    async def projects_of(self, connection: Any, keys: Iterable[int]) -> Mapping[int, str]:
        """The projects of webhooks. A webhook never changes its project."""
        unknown = [key for key in keys if key not in self._projects]
        if unknown:
            self._projects.update(
                {row["key"]: row["project_id"] for row in await connection.plain(query("webhooks_by_key"), unknown)}
            )
        return self._projects

    def remember_key(self, key_hash: bytes, project_id: str) -> None:
        if len(self.project_of_key) >= _REMEMBERED:
            self.project_of_key.clear()
        self.project_of_key[key_hash] = project_id

    async def node_of(self, connection: Any, project_id: str) -> NodeAddress | None:
        """The node of a project. None: the coordinator, or nobody knows."""
        found = await self.shard_of(connection, project_id)
        return None if found is None else found[0]

    async def shard_of(self, connection: Any, project_id: str) -> tuple[NodeAddress, int] | None:
        known = self._node_of.get(project_id)
        if known is not None and monotonic() - known[1] < _CURRENT:
            return known[0]
        if len(self._node_of) >= _REMEMBERED:
            self._node_of.clear()
        rows = await connection.plain(query("node_of_project"), project_id)
        found = (NodeAddress(rows[0]["host"], rows[0]["port"]), rows[0]["shard"]) if len(rows) == 1 else None
        self._node_of[project_id] = (found, monotonic())
        return found

    def forget_node_of(self, project_id: str) -> None:
        """Its node has failed: another server may have taken its place (`citus_update_node`)."""
        self._node_of.pop(project_id, None)

    def forget_shards(self) -> None:
        self._looked_at = -_CURRENT

    async def one_of_each_shard(self, connection: Any) -> list[str]:
        """A project of each shard that has any, in a new order each time, so that no shard is always the last."""
        if monotonic() - self._looked_at > _CURRENT:
            self._shards = [row["id"] for row in await connection.plain(query("a_project_of_each_shard"))]
            self._looked_at = monotonic()
        return random.sample(self._shards, len(self._shards))

    async def nodes_with_shards(self, connection: Any) -> list[NodeAddress | None]:
        """The nodes that have projects. None: the coordinator itself."""
        if monotonic() - self._asked_at > _CURRENT:
            self._with_shards = [
                None if row["is_coordinator"] else NodeAddress(row["host"], row["port"])
                for row in await connection.plain(query("nodes_with_shards"))
            ]
            self._asked_at = monotonic()
        return self._with_shards


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
        raise SchemaError(
            f"The distributed database lacks {len(missing)} statement(s) of this version (first: {missing[0]}). "
            "Run `latchkey migrate`."
        )
    calls: dict[str, Any] = {}
    on_shards: dict[str, ShardCall] = {}
    for name in wanted():
        route, text = routes()[name], made[name]["call"]
        if isinstance(route, Home):
            calls[query(name)] = ShardCall(text, route, name)
        else:
            on_node = text.replace("at_project.", "at_node.") if is_asked_of_nodes(name) else None
            direct = direct_call(text) if only_reads(name) else None
            calls[query(name)] = on_shards[name] = ShardCall(text, route, name, direct, on_node)
    calls.update({query(name): handler for name, handler in result_merge.HANDLERS.items()})
    return Directory(calls, on_shards)
