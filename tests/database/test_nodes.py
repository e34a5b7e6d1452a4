"""Connections to the nodes of a distributed database, without one. `tests/citus/test_reading.py` has one."""

import asyncio

import asyncpg
import pytest

from latchkey.database.distribution.nodes import AGAIN_SECONDS, LINKS, Away, NodeAddress, Nodes, address, is_of_a_node
from latchkey.database.errors import NodeAwayError
from tests.patience import until

HERE, THERE = NodeAddress("db2", 5432), NodeAddress("db3", 5432)


class Link:
    def __init__(self) -> None:
        self.closed = False

    def is_closed(self) -> bool:
        return self.closed

    def terminate(self) -> None:
        self.closed = True


class Network:
    def __init__(self) -> None:
        self.now = 0.0
        self.made: list[NodeAddress] = []
        self.broken = False
        self.nodes = Nodes(self._connect, lambda: self.now)

    async def _connect(self, node: NodeAddress) -> Link:
        self.made.append(node)
        if self.broken:
            raise ConnectionRefusedError
        return Link()

    async def taken(self, node: NodeAddress) -> Link:
        found: list[Link] = []

        async def is_there() -> bool:
            if (link := self.nodes.take(node)) is not None:
                found.append(link)
            return bool(found)

        await until(is_there, "no connection")
        return found[0]


async def test_nobody_waits_for_a_connection_and_one_is_made_for_later() -> None:
    network = Network()

    assert network.nodes.take(HERE) is None
    link = await network.taken(HERE)
    network.nodes.give_back(HERE, link, usable=True)

    assert network.nodes.take(HERE) is link
    assert network.nodes.take(THERE) is None
    await network.nodes.close()


async def test_there_are_only_so_many_connections_to_a_node() -> None:
    network = Network()
    links = [await network.taken(HERE) for _ in range(LINKS)]

    assert network.nodes.take(HERE) is None
    await asyncio.sleep(0)
    assert len(network.made) == LINKS
    network.nodes.give_back(HERE, links[0], usable=False)
    assert links[0].closed
    assert await network.taken(HERE) not in links
    await network.nodes.close()
    assert all(link.closed for link in links)


async def test_a_node_that_is_not_reached_is_tried_again_later() -> None:
    network = Network()
    network.broken = True
    for _ in range(3):
        assert network.nodes.take(HERE) is None
        # The attempt is over when all tasks had their turn.
        await asyncio.gather(*network.nodes._making.values())
    assert len(network.made) == 1

    network.broken, network.now = False, AGAIN_SECONDS
    assert await network.taken(HERE)
    await network.nodes.close()


async def test_a_connection_that_was_cut_is_not_lent() -> None:
    network = Network()
    link = await network.taken(HERE)
    network.nodes.give_back(HERE, link, usable=True)
    link.closed = True

    assert network.nodes.take(HERE) is None
    await network.nodes.close()


def test_a_node_has_the_same_address_with_another_host() -> None:
    assert address("postgresql://me:pa%40ss@db1:5432/latchkey?sslmode=require", HERE) == (
        "postgresql://me:pa%40ss@db2:5432/latchkey?sslmode=require"
    )
    assert address("postgresql://db1/latchkey", NodeAddress("::1", 1)) == "postgresql://[::1]:1/latchkey"


async def test_a_node_is_away_until_it_answers_again() -> None:
    asked: list[str] = []
    is_there = asyncio.Event()

    async def answers(project_id: str) -> None:
        asked.append(project_id)
        if not is_there.is_set():
            raise ConnectionRefusedError

    away = Away(answers, every=0.001)
    away.require(HERE)
    away.note(HERE, "proj_1")
    away.note(HERE, "proj_2")
    with pytest.raises(NodeAwayError, match="db2:5432"):
        away.require(HERE)
    away.require(THERE)
    away.require(None)

    await until(lambda: len(asked) > 1)
    assert HERE in away
    assert THERE not in away
    is_there.set()

    await until(lambda: not away, "nobody has noticed that the node is back")
    away.require(HERE)
    # One task asks, however many have noticed.
    assert set(asked) == {"proj_1"}

    is_there.clear()
    away.note(THERE, "proj_3")
    await away.close()
    assert not away


def test_only_what_the_coordinator_says_of_a_node_is_about_a_node() -> None:
    def error(kind: type[asyncpg.PostgresError], severity: str | None) -> asyncpg.PostgresError:
        made = kind("gone")
        if severity is not None:
            made.severity_en = severity
        return made

    assert is_of_a_node(error(asyncpg.ConnectionFailureError, "ERROR"))
    assert is_of_a_node(error(asyncpg.AdminShutdownError, "ERROR"))
    # The coordinator itself ends.
    assert not is_of_a_node(error(asyncpg.AdminShutdownError, "FATAL"))
    # The driver has lost the coordinator.
    assert not is_of_a_node(error(asyncpg.ConnectionDoesNotExistError, None))
    assert not is_of_a_node(error(asyncpg.QueryCanceledError, "ERROR"))
