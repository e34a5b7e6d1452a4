"""Connections to the nodes themselves, for reads.

A read through the coordinator is planned there, sent as text, and planned again on the node. Sent to the node at once,
as a call of the shard's own function, its plan is kept. A node that does not have the shard (any more) refuses it, and
the coordinator is asked, so a wrong guess costs only time. The coordinator is also asked whenever there is no
connection to a node: nobody waits for one to be made, and a node that cannot be reached from here is tried again now
and then.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import structlog

from latchkey.database.errors import NodeAwayError, NoPrimaryError
from latchkey.database.primary import FAILURES

log = structlog.get_logger()

# For each node and process. Reads are few and short, because they are batches; more at once go to the coordinator.
LINKS = 4
# Until a node is tried again that could not be reached, in seconds.
AGAIN_SECONDS = 60.0


class NodeAddress(NamedTuple):
    host: str
    port: int


def address(url: str, node: NodeAddress) -> str:
    """The same database, user and options at another host."""
    parts = urlsplit(url)
    user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    host = f"[{node.host}]" if ":" in node.host else node.host
    return urlunsplit(parts._replace(netloc=f"{user}{host}:{node.port}"))


class Nodes:
    def __init__(
        self, connect: Callable[[NodeAddress], Awaitable[Any]], clock: Callable[[], float] = monotonic
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._idle: dict[NodeAddress, list[Any]] = defaultdict(list)
        # Connections that are there or being made.
        self._amount: dict[NodeAddress, int] = defaultdict(int)
        self._not_before: dict[NodeAddress, float] = {}
        # One at a time for each node.
        self._making: dict[NodeAddress, asyncio.Task[None]] = {}
        self._lent: set[Any] = set()

    def take(self, node: NodeAddress) -> Any | None:
        """A connection to this node, or None: then ask the coordinator. One is made for later."""
        idle = self._idle[node]
        while idle:
            link = idle.pop()
            if not link.is_closed():
                self._lent.add(link)
                return link
            self._amount[node] -= 1
        if node not in self._making and self._amount[node] < LINKS and self._clock() >= self._not_before.get(node, 0.0):
            self._amount[node] += 1
            task = asyncio.create_task(self._make(node), name=f"connect to {node.host}:{node.port}")
            self._making[node] = task
            task.add_done_callback(lambda _: self._making.pop(node, None))
        return None

    def give_back(self, node: NodeAddress, link: Any, *, usable: bool) -> None:
        self._lent.discard(link)
        if usable and not link.is_closed():
            self._idle[node].append(link)
        else:
            self._amount[node] -= 1
            link.terminate()

    async def close(self) -> None:
        making = list(self._making.values())
        for task in making:
            task.cancel()
        await asyncio.gather(*making, return_exceptions=True)
        for link in [*self._lent, *(one for idle in self._idle.values() for one in idle)]:
            link.terminate()
        self._idle.clear()
        self._amount.clear()

    async def _make(self, node: NodeAddress) -> None:
        try:
            link = await self._connect(node)
        except (*FAILURES, NoPrimaryError) as error:
            self._amount[node] -= 1
            self._not_before[node] = self._clock() + AGAIN_SECONDS
            # The coordinator reaches it, so everything works.
            log.info("node is not reached from here", host=node.host, port=node.port, reason=type(error).__name__)
        except BaseException:
            self._amount[node] -= 1
            raise
        else:
            self._idle[node].append(link)


async def is_distributed(connection: Any) -> bool:
    """Whether the rows of this database are spread over several nodes, or were about to be: `latchkey migrate` goes on
    with what was interrupted, and no process starts before it is done."""
    found: bool = await connection.fetchval("select to_regclass('at_project.statements') is not null")
    return found


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
    """Nodes that do not answer. Whoever asks about a project on such a node is told so at once, instead of waiting for
    a connection that the coordinator cannot make; work that looks at all projects goes past it. One task for each such
    node finds out when it answers again. `answers` asks about a project on a node. It raises while the node is away."""

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
