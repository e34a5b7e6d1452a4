"""The database of a deployment as an operator sees it: its servers, tables, standbys and largest projects; what of this
needs an operator, and what the operator can do.

Numbers of rows are PostgreSQL's own estimates. Nothing here is worth counting a large table for.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from latchkey.domain.instants import MINUTE, SECOND, Ms


class OpenTransaction(Struct, frozen=True):
    application: str
    # As PostgreSQL calls it: active, idle in transaction.
    state: str
    age: Ms


class Slot(Struct, frozen=True):
    """A replication slot: the server keeps its log until the slot's reader has it."""

    name: str
    active: bool
    kept_bytes: int


class ServerReport(Struct, frozen=True):
    version: str
    is_standby: bool
    # Of this database there.
    bytes: int
    started_at: Ms
    connections: int
    # What may be used by Latchkey and others; superusers have a few more.
    most_connections: int
    oldest: OpenTransaction | None
    # Two-phase commits that are neither committed nor rolled back, and the age of the oldest.
    prepared: int
    prepared_age: Ms
    # How many transactions ago the oldest row version that was not frozen yet was written.
    unfrozen_age: int
    slots: Sequence[Slot] = ()


class Node(Struct, frozen=True):
    """One server of a Citus cluster."""

    id: int
    host: str
    port: int
    role: Literal["coordinator", "worker", "standby"]
    # None: it does not answer, and `problem` says why.
    server: ServerReport | None
    problem: str = ""
    # Shards of tables that are spread by project, without the copies of reference tables.
    shards: int = 0
    shard_bytes: int = 0

    @property
    def name(self) -> str:
        return f"{self.host}:{self.port}"


Place = Literal["", "by project", "on every node", "coordinator"]


class Table(Struct, frozen=True):
    name: str
    # None: never analysed.
    rows: int | None
    # With indexes.
    bytes: int
    # Row versions that vacuum has to remove.
    dead: int
    partitions: int = 0
    # Where its rows are in a cluster; empty on one server.
    place: Place = ""


class PartitionReport(Struct, frozen=True):
    table: str
    name: str
    # As PostgreSQL shows it: FOR VALUES FROM ... TO ...
    bounds: str
    rows: int | None
    bytes: int


class Standby(Struct, frozen=True):
    """A server that follows the primary."""

    name: str
    address: str
    # None where the database user may not see it.
    state: str | None
    # sync, quorum, potential or async.
    sync: str | None
    lag: Ms | None
    lag_bytes: int | None


class HotProject(Struct, frozen=True):
    id: str
    name: str
    # Events since the project exists, and since a day ago.
    events: int
    lately: int = 0
    # Counted up to a limit.
    customers: int = 0
    # About what its events, deliveries and customers take.
    bytes: int | None = None
    # In a cluster: the node that has its rows, and how many projects share its shards.
    node: str = ""
    neighbours: int = 0


class ListsReport(Struct, frozen=True):
    """The customer lists, which are computed from the events of all projects in the background."""

    # Events that are not in them yet, and how long the first of these has waited.
    behind: int
    lag: Ms
    # Customers that were not read yet; `more` if there are more than were counted.
    customers: int
    more: bool
    # Their tables with indexes.
    bytes: int


class DeploymentReport(Struct, frozen=True):
    server: ServerReport
    # Of tables that are not partitions, the largest first.
    tables: Sequence[Table]
    partitions: Sequence[PartitionReport]
    standbys: Sequence[Standby]
    # The setting synchronous_standby_names.
    synchronous: str
    # Those with the most events of the last day first.
    projects: Sequence[HotProject]
    # Of Citus; empty on a plain PostgreSQL.
    citus: str = ""
    nodes: Sequence[Node] = ()
    # None while a node does not answer.
    lists: ListsReport | None = None

    @property
    def bytes(self) -> int:
        """Of the database on all nodes."""
        known = [node.server.bytes for node in self.nodes if node.server is not None]
        return sum(known) if known else self.server.bytes


FULL_SHARE = 0.85
LONG_TRANSACTION = 15 * MINUTE
# Citus resolves what a crash left after a minute.
LONG_PREPARED = 10 * MINUTE
LONG_LAG = 60 * SECOND
# Charts and customer lists follow within seconds.
LONG_BEHIND = 5 * MINUTE
LARGE_LAG = LARGE_SLOT = 1024**3
# Autovacuum starts at a fifth by default; where more is left, it does not keep up.
DEAD_SHARE, DEAD_ROWS = 0.3, 100_000
# PostgreSQL freezes rows at 200 million and stops accepting changes at 2 billion.
OLD_ROWS = 1_000_000_000


class Finding(Struct, frozen=True):
    # Bad: something does not work now, or will soon stop.
    mark: Literal["good", "bad", "unknown"]
    about: str
    words: str
    remedy: str = ""


def troubles(standing: DeploymentReport) -> list[Finding]:
    return [
        *_of_nodes(standing),
        *_of_servers(standing),
        *_of_tables(standing),
        *_of_standbys(standing),
        *_of_lists(standing),
    ]


def _of_nodes(standing: DeploymentReport) -> Iterator[Finding]:
    for node in standing.nodes:
        if node.server is None:
            words = f"the node {node.name} does not answer: {node.problem}"
            remedy = "Start it, or promote its standby. Projects on it can be neither read nor changed meanwhile."
            yield Finding("bad", "nodes", words, remedy)


def _of_servers(standing: DeploymentReport) -> Iterator[Finding]:
    if not standing.nodes:
        yield from _of_server(standing.server, "")
    for node in standing.nodes:
        if node.server is not None:
            yield from _of_server(node.server, f" on {node.name}")


def _of_server(server: ServerReport, where: str) -> Iterator[Finding]:
    if server.connections >= FULL_SHARE * server.most_connections:
        yield Finding(
            "bad" if server.connections >= server.most_connections else "unknown",
            "connections",
            f"{server.connections:,} of {server.most_connections:,} connections are used{where}",
            "Raise max_connections, or lower LATCHKEY_DATABASE_CONNECTIONS; docs/sizing.md has the arithmetic.",
        )
    if server.oldest is not None and server.oldest.age >= LONG_TRANSACTION:
        old = server.oldest
        yield Finding(
            "unknown",
            "transactions",
            f"a transaction of {old.application or 'an unnamed program'} is open for {old.age // MINUTE:,} minutes "
            f"({old.state}){where}",
            "End it: until then vacuum cannot remove old rows, and tables grow.",
        )
    if server.prepared and server.prepared_age >= LONG_PREPARED:
        yield Finding(
            "bad",
            "transactions",
            f"{server.prepared:,} two-phase commits are unfinished{where}, the oldest for "
            f"{server.prepared_age // MINUTE:,} minutes",
            "They hold locks. Citus finishes its own once all nodes answer; see pg_prepared_xacts.",
        )
    if server.unfrozen_age >= OLD_ROWS:
        yield Finding(
            "bad",
            "autovacuum",
            f"the oldest rows that are not frozen are {server.unfrozen_age / 1e6:,.0f} million transactions old{where}",
            "Run `vacuum (freeze)`. PostgreSQL refuses changes at 2,000 million.",
        )
    for slot in server.slots:
        if not slot.active and slot.kept_bytes >= LARGE_SLOT:
            yield Finding(
                "bad",
                "replication",
                f"nobody reads the replication slot {slot.name}{where}, for which "
                f"{slot.kept_bytes / 1024**3:,.1f} GiB of log are kept",
                "Start its reader, or drop the slot with pg_drop_replication_slot: it fills the disk.",
            )


def _of_tables(standing: DeploymentReport) -> Iterator[Finding]:
    for table in standing.tables:
        if table.dead >= DEAD_ROWS and table.dead >= DEAD_SHARE * max(table.rows or 0, 1):
            yield Finding(
                "unknown",
                "autovacuum",
                f"{table.name} has {table.dead:,} dead rows beside {table.rows or 0:,} live ones",
                "Let autovacuum work harder (docs/sizing.md has settings), and look for an old transaction.",
            )


def _of_standbys(standing: DeploymentReport) -> Iterator[Finding]:
    synchronous = [standby for standby in standing.standbys if standby.sync in ("sync", "quorum")]
    hidden = any(standby.sync is None for standby in standing.standbys)
    if standing.synchronous and not synchronous and not hidden and not standing.server.is_standby:
        yield Finding(
            "bad",
            "replication",
            f"synchronous_standby_names is {standing.synchronous!r}, but no such standby is connected",
            "Every commit waits for it. Start the standby, or take it out of the setting.",
        )
    for standby in standing.standbys:
        if (standby.lag or 0) >= LONG_LAG or (standby.lag_bytes or 0) >= LARGE_LAG:
            yield Finding(
                "unknown",
                "replication",
                f"the standby {standby.name or standby.address} is {(standby.lag or 0) // SECOND:,} s and "
                f"{(standby.lag_bytes or 0) / 1024**2:,.0f} MiB behind",
                "Look at its disk and network: it cannot take over without losing what it lacks.",
            )


def _of_lists(standing: DeploymentReport) -> Iterator[Finding]:
    lists = standing.lists
    if lists is not None and lists.lag >= LONG_BEHIND:
        yield Finding(
            "unknown",
            "customer lists",
            f"{lists.behind:,} events are not in the customer lists yet; the first has waited for "
            f"{lists.lag // MINUTE:,} minutes",
            "Check that a process with the role clock is running, and look for errors in its log.",
        )
