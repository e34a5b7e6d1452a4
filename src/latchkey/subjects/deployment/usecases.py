"""A look at the whole database: one machine or a cluster, sizes, standbys, the projects with the most events."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from latchkey.database.pool import Connection, Database
from latchkey.domain.instants import DAY, Ms
from latchkey.observability import storage as observability_storage
from latchkey.subjects.deployment import storage
from latchkey.subjects.deployment.rules import DeploymentReport, HotProject, ListsReport, Table

# How many projects are looked at, by their events ever, and how many are shown, by those of the last day.
LOOKED_AT, SHOWN = 50, 10
# How many new customers of a project are counted that the customer lists have not read yet.
NEW_CUSTOMERS = 1_000
# Up to which the customers of a project are counted.
MOST_CUSTOMERS = 1_000_000
# A look at a database in trouble must not become part of the trouble.
PATIENCE_MS = 10_000
# Tables that grow with the events of a project, and tables that grow with its customers.
BY_EVENT = frozenset({"events", "deliveries", "attempts", "lanes", "chart_periods", "purchase_transactions"})
BY_CUSTOMER = frozenset(
    {"customers", "aliases", "customer_emails", "purchase_owners", "store_handles", "customer_facets"}
)
# The tables of the customer lists, by the beginning of their names.
OF_LISTS = ("customer_facets", "facet_")


async def look(database: Database, now: Ms) -> DeploymentReport:
    async with database.transaction(readonly=True, statement_timeout_ms=PATIENCE_MS) as connection:
        return await look_through(connection, now)


async def look_through(connection: Connection, now: Ms) -> DeploymentReport:
    """Needs a transaction."""
    server = await storage.server(connection)
    tables, partitions = await storage.tables(connection)
    standbys, synchronous = await storage.standbys(connection)
    citus = await storage.version(connection)
    shards = await storage.shards(connection) if citus else []
    nodes = await storage.nodes(connection, shards) if citus else []
    if shards:
        tables, partitions = storage.cluster_tables(shards, tables)
    homes = await storage.homes(connection, shards) if shards else {}
    # The feeds are on all nodes: while one does not answer, a statement over all of them fails.
    all_answer = all(node.server is not None for node in nodes)
    hot = await hottest(connection, tables, homes, now) if all_answer else []
    lists = await _lists(connection, tables, now) if all_answer else None
    return DeploymentReport(server, tables, partitions, standbys, synchronous, hot, citus, nodes, lists)


async def _lists(connection: Connection, tables: Sequence[Table], now: Ms) -> ListsReport:
    found = await observability_storage.watch_lists(connection, NEW_CUSTOMERS)
    lag = max(0, now - found.oldest_at) if found.oldest_at is not None else 0
    size = sum(table.bytes for table in tables if table.name.startswith(OF_LISTS))
    return ListsReport(found.behind, lag, found.customers, found.customers >= NEW_CUSTOMERS, size)


async def hottest(
    connection: Connection, tables: Sequence[Table], homes: Mapping[str, storage.ProjectLocation], now: Ms
) -> list[HotProject]:
    found = []
    for project in await storage.largest_feeds(connection, LOOKED_AT):
        lately = await storage.events_since(connection, project.id, now - DAY) if project.events else 0
        customers = await storage.customers(connection, project.id, MOST_CUSTOMERS)
        home = homes[project.id]._asdict() if project.id in homes else {}
        found.append(replace(project, lately=lately or 0, customers=customers, **home))
    if not homes:
        found = _sized(found, tables)
    return sorted(found, key=lambda project: (-project.lately, -project.events, project.id))[:SHOWN]


def _sized(found: Sequence[HotProject], tables: Sequence[Table]) -> list[HotProject]:
    """On one server all projects share the tables: each gets its part by its events and its customers."""
    by_event = sum(table.bytes for table in tables if table.name in BY_EVENT)
    by_customer = sum(table.bytes for table in tables if table.name in BY_CUSTOMER)
    events = sum(project.events for project in found) or 1
    customers = sum(project.customers for project in found) or 1
    return [
        replace(project, bytes=by_event * project.events // events + by_customer * project.customers // customers)
        for project in found
    ]
