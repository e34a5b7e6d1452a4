"""Connections to a distributed database: each named statement goes where `statements.py` says.

The rest of storage uses them as any other connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Self

import asyncpg
from asyncpg.transaction import Transaction

from latchkey.database.distribution import result_merge
from latchkey.database.distribution.directory import Directory, ShardCall, load
from latchkey.database.distribution.nodes import Away, NodeAddress, Nodes, address, is_distributed, is_of_a_node
from latchkey.database.distribution.statements import AtProject, AtWebhook, ByProject, ByWebhook, EachShard
from latchkey.database.errors import NodeAwayError, OutageError
from latchkey.database_address import parse

# How often a statement is sent again that met a project on its way to another node.
_PATIENCE = 50
_PAUSE = 0.1


class DistributedConnection(asyncpg.Connection):
    __slots__ = ()
    directory: Directory

    def transaction(self, *, readonly: bool = False, **options: Any) -> Transaction:  # noqa: ARG002
        """Never read-only: a shard that was moved gets each of its functions on their first use, also by a read."""
        return super().transaction(**options)

    async def fetch(self, query: str, *args: Any, **options: Any) -> Any:
        return await self._ask(super().fetch, query, args, options, lambda rows: rows)

    async def fetchrow(self, query: str, *args: Any, **options: Any) -> Any:
        return await self._ask(super().fetchrow, query, args, options, lambda rows: rows[0] if rows else None)

    async def fetchval(self, query: str, *args: Any, **options: Any) -> Any:
        column = options.get("column", 0)
        return await self._ask(super().fetchval, query, args, options, lambda rows: rows[0][column] if rows else None)

    async def execute(self, query: str, *args: Any, **options: Any) -> str:
        status: str = await self._ask(super().execute, query, args, options, lambda rows: f"DONE {len(rows)}")
        return status

    async def _ask(
        self,
        plain: Callable[..., Awaitable[Any]],
        query: str,
        args: Sequence[Any],
        options: Mapping[str, Any],
        result: Callable[[list[Any]], Any],
    ) -> Any:
        call = self.directory.calls.get(query)
        if call is None:
            return await self._said(plain, query, args, options)
        rows = await (self.on_shards(call, args) if isinstance(call, ShardCall) else call(self, args))
        return result(rows)

    async def plain(self, query: str, *args: Any) -> list[Any]:
        """The rows of a statement that is sent as it is."""
        rows: list[Any] = await self._said(super().fetch, query, args, {})
        return rows

    async def at_project(self, text: str, project_id: str, args: Sequence[Any]) -> list[Any]:
        """The rows of a function on the node of a project. Waits for a project that is on its way to another node."""
        if self.directory.away:
            self.directory.away.require(await self.directory.node_of(self, project_id))
        for _ in range(_PATIENCE):
            try:
                return await self.plain(text, project_id, *args)
            except asyncpg.SerializationError as error:
                if result_merge.NOT_SENT in str(error):
                    # Closed when it is released: a transaction that it is in cannot end without it.
                    self.directory.spoiled.add(self)
                    raise OutageError("This connection to the coordinator was of no use any more.") from error
                if self.is_in_transaction() or result_merge.MOVED not in str(error):
                    raise
                await asyncio.sleep(_PAUSE)
            except NodeAwayError:
                # In a transaction that has failed nobody can ask where the project is. The next one finds out.
                if not self.is_in_transaction():
                    self.directory.forget_node_of(project_id)
                    node = await self.directory.node_of(self, project_id)
                    if node is not None:
                        self.directory.away.note(node, project_id)
                raise
        return await self.plain(text, project_id, *args)

    async def _at(self, call: ShardCall, project_id: str, args: Sequence[Any]) -> list[Any]:
        if call.direct is not None and not self.is_in_transaction():
            taken = await self._take_link(call.direct, project_id)
            if taken is not None and (rows := await self._at_shard(*taken, project_id, args)) is not None:
                return rows
        return await self.at_project(call.text, project_id, args)

    async def begin_read(
        self, name: str, project_id: str, args: Sequence[Any]
    ) -> asyncio.Task[list[Any] | None] | None:
        """A read that its node begins now, while this connection is used for something else. None, from it or in its
        place: it has to be asked in the usual way."""
        direct = self.directory.on_shards[name].direct
        if direct is None or self.is_in_transaction():
            return None
        try:
            taken = await self._take_link(direct, project_id)
        except NodeAwayError:
            return None
        if taken is None:
            return None
        return asyncio.create_task(self._at_shard(*taken, project_id, args), name=f"read {name}")

    async def _take_link(self, direct: str, project_id: str) -> tuple[NodeAddress, Any, str] | None:
        """The node of a project, a connection to it, and how the shard is read there. None: the coordinator has to be
        asked, also about what is wrong with the statement."""
        found = await self.directory.shard_of(self, project_id)
        if found is None:
            return None
        node, shard = found
        self.directory.away.require(node)
        link = self.directory.nodes.take(node)
        return None if link is None else (node, link, direct.format(shard=shard))

    async def _at_shard(
        self, node: NodeAddress, link: Any, text: str, project_id: str, args: Sequence[Any]
    ) -> list[Any] | None:
        rows = await self._linked(node, link, text, *args)
        if rows is None:
            self.directory.forget_node_of(project_id)
        return rows

    async def _linked(self, node: NodeAddress, link: Any, text: str, *args: Any) -> list[Any] | None:
        """The rows of a read at a node. None: it could not answer."""
        usable = False
        try:
            rows: list[Any] = await link.fetch(text, *args)
            usable = True
        except asyncpg.QueryCanceledError:
            # It has had its time.
            usable = True
            raise
        except asyncpg.PostgresError:
            usable = True
            return None
        except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError):
            return None
        finally:
            self.directory.nodes.give_back(node, link, usable=usable)
        return rows

    async def on_shards(self, call: ShardCall, args: Sequence[Any]) -> list[Any]:
        match call.route:
            case AtProject(number):
                return await self._at(call, args[number - 1], args)
            case ByProject() as route:
                return await self._by_project(call, route, args)
            case AtWebhook(number):
                projects = await self.directory.projects_of(self, [args[number - 1]])
                return await self._at(call, projects.get(args[number - 1], ""), args)
            case ByWebhook() as route:
                return await self._by_webhook(call, route, args)
            case EachShard() as route:
                if route.project is not None and args[route.project - 1] is not None:
                    return await self._at(call, args[route.project - 1], args)
                return await self._each_shard(call, route, args)
            case _:
                return await self.plain(call.text, *args)

    async def _said(
        self, said: Callable[..., Awaitable[Any]], query: str, args: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        try:
            return await said(query, *args, **options)
        except asyncpg.FeatureNotSupportedError:
            self.directory.spoiled.add(self)
            raise
        except asyncpg.InternalServerError as error:
            self.directory.spoiled.add(self)
            raise result_merge.as_collision(error) from error
        except asyncpg.PostgresError as error:
            if is_of_a_node(error):
                raise NodeAwayError(f"A node of the database does not answer: {error}") from error
            raise

    async def _by_project(self, call: ShardCall, route: ByProject, args: Sequence[Any]) -> list[Any]:
        projects = result_merge.projects(route, args)
        if len(projects) == 1:
            return await self._at(call, projects[0], args)
        parts, away = [], []
        for project_id in projects:
            own, places = result_merge.part(route, args, project_id)
            try:
                parts.append((places, await self._at(call, project_id, own)))
            except NodeAwayError as error:
                # One project does not wait for the node of another, if a number says which rows are whose.
                if route.place is None or self.is_in_transaction():
                    raise
                away.append((places, error))
        rows = result_merge.together(route, parts)
        if away:
            raise NodeAwayError(str(away[0][1]), rows, [place for places, _ in away for place in places])
        return rows

    async def _by_webhook(self, call: ShardCall, route: ByWebhook, args: Sequence[Any]) -> list[Any]:
        found = await self.directory.projects_of(self, args[route.first - 1])
        rows: list[Any] = []
        for number, (project_id, own) in enumerate(result_merge.by_webhook(route, args, found)):
            if route.apart is not None:
                at, step = route.apart
                own[at - 1] += number * step
            try:
                rows += await self._at(call, project_id, own)
            except NodeAwayError:
                if not route.goes_past or self.is_in_transaction():
                    raise
        return rows

    async def _each_node(self, call: ShardCall, args: Sequence[Any]) -> list[Any] | None:
        """The rows of all shards, with one question to each node. None: the coordinator has to ask some node."""
        if call.on_node is None or self.is_in_transaction():
            return None
        rows: list[Any] = []
        for node in await self.directory.nodes_with_shards(self):
            if node is None:
                rows += await self.plain(call.on_node, None, *args)
            elif node not in self.directory.away:
                link = self.directory.nodes.take(node)
                found = None if link is None else await self._linked(node, link, call.on_node, None, *args)
                if found is None:
                    return None
                rows += found
        return rows

    async def _each_shard(self, call: ShardCall, route: EachShard, args: Sequence[Any]) -> list[Any]:
        found = await self._each_node(call, args)
        if found is not None:
            return result_merge.sums(found, route.least) if route.merge == "sums" else found
        own = list(args)
        rows: list[Any] = []
        for project_id in await self.directory.one_of_each_shard(self):
            if route.limit is not None and not route.sorted:
                own[route.limit - 1] = args[route.limit - 1] - len(rows)
                if own[route.limit - 1] <= 0:
                    break
            away = self.directory.away
            if route.goes_past and away and await self.directory.node_of(self, project_id) in away:
                continue
            try:
                rows += await self._at(call, project_id, own)
            except NodeAwayError:
                if not route.goes_past or self.is_in_transaction():
                    raise
        if route.sorted and route.limit is not None:
            rows = sorted(rows, key=lambda row: row[0])[: args[route.limit - 1]]
        return result_merge.sums(rows, route.least) if route.merge == "sums" else rows


Connect = Callable[[str], Awaitable[Any]]
Acquire = Callable[[], AbstractAsyncContextManager[Any]]


class Cluster:
    """What all connections of a pool to a distributed database share."""

    # Of its connections: Citus finds the node of a statement by the values of its parameters.
    settings: Final[Mapping[str, str]] = {"plan_cache_mode": "force_custom_plan"}

    def __init__(self, directory: Directory, url: str, connect: Connect, acquire: Acquire) -> None:
        self._acquire = acquire
        self._directory = directory
        self._ask = directory.on_shards["feed_head"].text
        self.links = directory.nodes = Nodes(lambda node: connect(address(parse(url).hosts[0].url, node)))
        self._away = directory.away = Away(self._require_answer)
        # They share what is known of the database.
        self.connection_class: type[asyncpg.Connection[asyncpg.Record]] = type(
            "OneOfDistributed", (DistributedConnection,), {"__slots__": (), "directory": directory}
        )

    @classmethod
    async def find(cls, connection: Any, url: str, connect: Connect, acquire: Acquire) -> Self | None:
        """None: it is a plain database."""
        if not await is_distributed(connection):
            return None
        return cls(await load(connection), url, connect, acquire)

    async def nodes(self, connection: Any) -> dict[str, bool]:
        """Those that have projects, and whether they answer."""
        found = await self._directory.nodes_with_shards(connection)
        return {f"{node.host}:{node.port}": node not in self._away for node in found if node is not None}

    async def release(self, connection: Any) -> None:
        if connection in self._directory.spoiled:
            connection.terminate()

    async def close(self) -> None:
        await self._away.close()
        await self.links.close()

    async def _require_answer(self, project_id: str) -> None:
        """Raises while the coordinator does not reach the node of a project."""
        async with self._acquire() as connection:
            await connection.plain(self._ask, project_id, project_id)
