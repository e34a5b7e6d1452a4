"""What the database says about the whole deployment, for those who watch it. Every statement reads a bounded number of
rows, however much waits."""

from msgspec import Struct

from latchkey.database import database_identity
from latchkey.database.pool import Connection, Database
from latchkey.database.rows import fetch_all, fetch_one
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.engine.storage import scans

# Webhooks that are shown one by one.
MOST_WEBHOOKS = 500
# Notifications that are counted.
MOST_NOTIFICATIONS = 10_000


class Queue(Struct, frozen=True):
    webhook_id: str
    # Customers with waiting deliveries, and these deliveries; counted up to a limit.
    lanes: int
    waiting: int
    # Since when the oldest waits; and since when the oldest could have been sent and was not.
    oldest_at: Ms
    due_at: Ms | None


class Journal(Struct, frozen=True):
    waiting: int
    failed: int
    # When the first of those that wait was to be processed.
    due_at: Ms | None


class ListsLag(Struct, frozen=True):
    """How far the customer lists of all projects are behind."""

    # Events that are not in them yet.
    behind: int
    # When the first of these events was committed.
    oldest_at: Ms | None
    # Customers that were not read yet, counted up to a limit.
    customers: int


class QueueDepths(Struct, frozen=True):
    webhooks: dict[str, int]
    # Since when, by webhook.
    failing: dict[str, Ms]
    queues: list[Queue]
    # Customers with waiting deliveries, over all webhooks; an estimate.
    lanes_estimate: int
    # When the next customer falls due.
    clock_due_at: Ms | None
    journal: Journal
    customer_lists: ListsLag
    # Whether each node of a cluster answers. What is on one that does not is left out above.
    nodes: dict[str, bool]
    # Failovers that may have lost commits, until `after-restore` has run.
    lossy_failovers: int


async def measure(database: Database, now: Ms, lanes_each: int) -> QueueDepths:
    """`lanes_each`: how many customers of each webhook are counted."""
    async with database.acquire() as connection:
        webhooks = await connection.fetch(query("watch_webhooks"), now)
        failing = await connection.fetch(query("watch_failing_webhooks"), MOST_WEBHOOKS)
        queues = await fetch_all(connection, Queue, query("watch_queue"), now, lanes_each, MOST_WEBHOOKS)
        estimate = await connection.fetchval(query("watch_queue_estimate"))
        due = await scans.look_out(connection)
        journal = await fetch_one(connection, Journal, query("watch_journal"), MOST_NOTIFICATIONS)
        lists = await watch_lists(connection)
        nodes = await database.nodes(connection)
        lossy = await database_identity.lossy_failovers(connection)
    assert journal is not None, "an aggregate always has a row"
    return QueueDepths(
        {row["state"]: row["webhooks"] for row in webhooks},
        {row["id"]: row["since"] for row in failing},
        queues,
        estimate or 0,
        due.customer_at,
        journal,
        lists,
        nodes,
        lossy,
    )


async def watch_lists(connection: Connection, customers_each: int = 0) -> ListsLag:
    """`customers_each`: how many new customers of a project are counted."""
    # None from a cluster without a project: no shard was asked.
    return await fetch_one(connection, ListsLag, query("watch_lists"), customers_each) or ListsLag(0, None, 0)
