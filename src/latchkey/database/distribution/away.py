"""Nodes that do not answer. Whoever asks about a project on such a node is told so at once, instead of waiting for a
connection that the coordinator cannot make; work that looks at all projects goes past it. One task for each such node
finds out when it answers again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import structlog

from latchkey.database.distribution.nodes import NodeAddress
from latchkey.database.errors import NodeAwayError

log = structlog.get_logger()

# Between two questions whether a node is back, in seconds.
ASKED_EVERY = 1.0

_OF_A_NODE = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
)


def is_of_a_node(error: BaseException) -> bool:
    """Whether the coordinator says that it has lost a node, or cannot reach it. What it says before it ends itself is
    FATAL, and what the driver says by itself has no severity."""
    return isinstance(error, _OF_A_NODE) and getattr(error, "severity_en", None) == "ERROR"


class Away:
    """`answers` asks about a project on a node. It raises while the node is away."""

    def __init__(self, answers: Callable[[str], Awaitable[Any]], every: float = ASKED_EVERY) -> None:
        self._answers = answers
        self._every = every
        self._waiting: dict[NodeAddress, asyncio.Task[None]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, node: NodeAddress | None) -> bool:
        return node in self._waiting

    def require(self, node: NodeAddress | None) -> None:
        if node in self._waiting:
            raise NodeAwayError(f"The node {node.host}:{node.port} of the database does not answer.")

    def note(self, node: NodeAddress, project_id: str) -> None:
        """A node that has this project does not answer."""
        if node in self._waiting:
            return
        log.warning("node of the database is away", host=node.host, port=node.port)
        task = asyncio.create_task(self._until_back(project_id), name=f"wait for {node.host}:{node.port}")
        self._waiting[node] = task
        task.add_done_callback(lambda _: self._back(node))

    async def close(self) -> None:
        waiting = list(self._waiting.values())
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def _until_back(self, project_id: str) -> None:
        while True:
            await asyncio.sleep(self._every)
            try:
                await self._answers(project_id)
            except Exception:  # noqa: S112 - it is still away, or the coordinator is, too
                continue
            return

    def _back(self, node: NodeAddress) -> None:
        self._waiting.pop(node, None)
        log.info("node of the database answers again", host=node.host, port=node.port)
