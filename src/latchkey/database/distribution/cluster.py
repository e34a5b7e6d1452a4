"""What all connections of a pool to a distributed database share."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Self

from latchkey.database.distribution.away import Away
from latchkey.database.distribution.connection import connection_class
from latchkey.database.distribution.directory import Directory, load
from latchkey.database.distribution.nodes import NodeAddress, Nodes, address, is_distributed
from latchkey.database_address import parse

Connect = Callable[[str], Awaitable[Any]]
Acquire = Callable[[], AbstractAsyncContextManager[Any]]


class Cluster:
    # Of its connections: Citus finds the node of a statement by the values of its parameters.
    settings: Final[Mapping[str, str]] = {"plan_cache_mode": "force_custom_plan"}

    def __init__(self, directory: Directory, url: str, connect: Connect, acquire: Acquire) -> None:
        self._url = url
        self._connect = connect
        self._acquire = acquire
        self._directory = directory
        self._ask = directory.on_shards["feed_head"].text
        self.links = directory.nodes = Nodes(self._connect_to)
        self._away = directory.away = Away(self._require_answer)
        self.connection_class = connection_class(directory)

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
        """When a connection goes back into the pool."""
        if connection in self._directory.spoiled:
            connection.terminate()

    async def close(self) -> None:
        await self._away.close()
        await self.links.close()

    async def _connect_to(self, node: NodeAddress) -> Any:
        return await self._connect(address(parse(self._url).hosts[0].url, node))

    async def _require_answer(self, project_id: str) -> None:
        """Raises while the coordinator does not reach the node of a project."""
        async with self._acquire() as connection:
            await connection.plain(self._ask, project_id, project_id)
