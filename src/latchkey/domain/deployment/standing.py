"""The database of a deployment as an operator sees it: its servers, tables, standbys and largest projects.

Numbers of rows are PostgreSQL's own estimates. Nothing here is worth counting a large table for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from latchkey.domain.instants import Ms


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction that is still open."""

    application: str
    # As PostgreSQL calls it: active, idle in transaction.
    state: str
    age: Ms


@dataclass(frozen=True, slots=True)
class Slot:
    """A replication slot: the server keeps its log until the slot's reader has it."""

    name: str
    active: bool
    kept_bytes: int


@dataclass(frozen=True, slots=True)
class Server:
    """One PostgreSQL."""

    version: str
    is_standby: bool
    # Of this database there.
    bytes: int
    started_at: Ms
    connections: int
    # What may be used by Latchkey and others; superusers have a few more.
    most_connections: int
    oldest: Transaction | None
    # Two-phase commits that are neither committed nor rolled back, and the age of the oldest.
    prepared: int
    prepared_age: Ms
    # How many transactions ago the oldest row version that was not frozen yet was written.
    unfrozen_age: int
    slots: Sequence[Slot] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """One server of a Citus cluster."""

    id: int
    host: str
    port: int
    role: Literal["coordinator", "worker", "standby"]
    # None: it does not answer, and `problem` says why.
    server: Server | None
    problem: str = ""
    # Shards of tables that are spread by project, without the copies of reference tables.
    shards: int = 0
    shard_bytes: int = 0

    @property
    def name(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    # None: never analysed.
    rows: int | None
    # With indexes.
    bytes: int
    # Row versions that vacuum has to remove.
    dead: int
    partitions: int = 0
    # Where its rows are in a cluster; empty on one server.
    place: Literal["", "by project", "on every node", "coordinator"] = ""


@dataclass(frozen=True, slots=True)
class Partition:
    table: str
    name: str
    # As PostgreSQL shows it: FOR VALUES FROM ... TO ...
    bounds: str
    rows: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class Standby:
    """A server that follows the primary."""

    name: str
    address: str
    # None where the database user may not see it.
    state: str | None
    # sync, quorum, potential or async.
    sync: str | None
    lag: Ms | None
    lag_bytes: int | None


@dataclass(frozen=True, slots=True)
class HotProject:
    id: str
    name: str
    # Events since the project exists, and since a day ago.
    events: int
    lately: int
    # Counted up to a limit.
    customers: int
    # About what its events, deliveries and customers take.
    bytes: int | None
    # In a cluster: the node that has its rows, and how many projects share its shards.
    node: str = ""
    neighbours: int = 0


@dataclass(frozen=True, slots=True)
class Lists:
    """The customer lists, which are computed from the events of all projects in the background."""

    # Events that are not in them yet, and how long the first of these has waited.
    behind: int
    lag: Ms
    # Customers that were not read yet; `more` if there are more than were counted.
    customers: int
    more: bool
    # Their tables with indexes.
    bytes: int


@dataclass(frozen=True, slots=True)
class Standing:
    server: Server
    # Of tables that are not partitions, the largest first.
    tables: Sequence[Table]
    partitions: Sequence[Partition]
    standbys: Sequence[Standby]
    # The setting synchronous_standby_names.
    synchronous: str
    # Those with the most events of the last day first.
    projects: Sequence[HotProject]
    # Of Citus; empty on a plain PostgreSQL.
    citus: str = ""
    nodes: Sequence[Node] = field(default=())
    # None while a node does not answer.
    lists: Lists | None = None

    @property
    def bytes(self) -> int:
        """Of the database on all nodes."""
        known = [node.server.bytes for node in self.nodes if node.server is not None]
        return sum(known) if known else self.server.bytes
