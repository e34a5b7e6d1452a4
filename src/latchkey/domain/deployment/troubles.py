"""Which facts about a database need an operator, and what the operator can do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from latchkey.domain.deployment.standing import Server, Standing
from latchkey.domain.instants import MINUTE, SECOND

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


@dataclass(frozen=True, slots=True)
class Trouble:
    about: str
    words: str
    remedy: str
    # Something does not work now, or will soon stop.
    grave: bool = False


def troubles(standing: Standing) -> list[Trouble]:
    return [
        *_of_nodes(standing),
        *_of_servers(standing),
        *_of_tables(standing),
        *_of_standbys(standing),
        *_of_lists(standing),
    ]


def _of_nodes(standing: Standing) -> Iterator[Trouble]:
    for node in standing.nodes:
        if node.server is None:
            words = f"the node {node.name} does not answer: {node.problem}"
            remedy = "Start it, or promote its standby. Projects on it can be neither read nor changed meanwhile."
            yield Trouble("nodes", words, remedy, grave=True)


def _of_servers(standing: Standing) -> Iterator[Trouble]:
    if not standing.nodes:
        yield from _of_server(standing.server, "")
    for node in standing.nodes:
        if node.server is not None:
            yield from _of_server(node.server, f" on {node.name}")


def _of_server(server: Server, where: str) -> Iterator[Trouble]:
    if server.connections >= FULL_SHARE * server.most_connections:
        yield Trouble(
            "connections",
            f"{server.connections:,} of {server.most_connections:,} connections are used{where}",
            "Raise max_connections, or lower LATCHKEY_DATABASE_CONNECTIONS; docs/sizing.md has the arithmetic.",
            grave=server.connections >= server.most_connections,
        )
    if server.oldest is not None and server.oldest.age >= LONG_TRANSACTION:
        old = server.oldest
        yield Trouble(
            "transactions",
            f"a transaction of {old.application or 'an unnamed program'} is open for {old.age // MINUTE:,} minutes "
            f"({old.state}){where}",
            "End it: until then vacuum cannot remove old rows, and tables grow.",
        )
    if server.prepared and server.prepared_age >= LONG_PREPARED:
        yield Trouble(
            "transactions",
            f"{server.prepared:,} two-phase commits are unfinished{where}, the oldest for "
            f"{server.prepared_age // MINUTE:,} minutes",
            "They hold locks. Citus finishes its own once all nodes answer; see pg_prepared_xacts.",
            grave=True,
        )
    if server.unfrozen_age >= OLD_ROWS:
        yield Trouble(
            "autovacuum",
            f"the oldest rows that are not frozen are {server.unfrozen_age / 1e6:,.0f} million transactions old{where}",
            "Run `vacuum (freeze)`. PostgreSQL refuses changes at 2,000 million.",
            grave=True,
        )
    for slot in server.slots:
        if not slot.active and slot.kept_bytes >= LARGE_SLOT:
            yield Trouble(
                "replication",
                f"nobody reads the replication slot {slot.name}{where}, for which "
                f"{slot.kept_bytes / 1024**3:,.1f} GiB of log are kept",
                "Start its reader, or drop the slot with pg_drop_replication_slot: it fills the disk.",
                grave=True,
            )


def _of_tables(standing: Standing) -> Iterator[Trouble]:
    for table in standing.tables:
        if table.dead >= DEAD_ROWS and table.dead >= DEAD_SHARE * max(table.rows or 0, 1):
            yield Trouble(
                "autovacuum",
                f"{table.name} has {table.dead:,} dead rows beside {table.rows or 0:,} live ones",
                "Let autovacuum work harder (docs/sizing.md has settings), and look for an old transaction.",
            )


def _of_standbys(standing: Standing) -> Iterator[Trouble]:
    synchronous = [one for one in standing.standbys if one.sync in ("sync", "quorum")]
    hidden = any(one.sync is None for one in standing.standbys)
    if standing.synchronous and not synchronous and not hidden and not standing.server.is_standby:
        yield Trouble(
            "replication",
            f"synchronous_standby_names is {standing.synchronous!r}, but no such standby is connected",
            "Every commit waits for it. Start the standby, or take it out of the setting.",
            grave=True,
        )
    for one in standing.standbys:
        if (one.lag or 0) >= LONG_LAG or (one.lag_bytes or 0) >= LARGE_LAG:
            yield Trouble(
                "replication",
                f"the standby {one.name or one.address} is {(one.lag or 0) // SECOND:,} s and "
                f"{(one.lag_bytes or 0) / 1024**2:,.0f} MiB behind",
                "Look at its disk and network: it cannot take over without losing what it lacks.",
            )


def _of_lists(standing: Standing) -> Iterator[Trouble]:
    lists = standing.lists
    if lists is not None and lists.lag >= LONG_BEHIND:
        yield Trouble(
            "customer lists",
            f"{lists.behind:,} events are not in the customer lists yet; the first has waited for "
            f"{lists.lag // MINUTE:,} minutes",
            "Check that a process with the role clock is running, and look for errors in its log.",
        )
