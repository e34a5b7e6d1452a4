"""Events for the dashboard, with counts of their deliveries. Every query reads a bounded number of rows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from latchkey.database.pool import Connection, Executor
from latchkey.database.rows import fetch_all, item_of
from latchkey.database.sql import query
from latchkey.engine.storage import event_feed as customers_storage
from latchkey.subjects.events.rules import DeliveryTally, EventDetails, EventFilter, ListedEvent


async def head(connection: Executor, project_id: str) -> int:
    """The position of the project's newest event; 0 if there is none."""
    position: int | None = await connection.fetchval(query("feed_head"), project_id)
    return position or 0


async def newest(
    connection: Connection, project_id: str, chosen: EventFilter, *, before: int, floor: int, limit: int
) -> list[ListedEvent]:
    """Newest first, with `floor` <= position < `before`."""
    asked = project_id, before, floor, chosen.type, chosen.environment, limit
    return await fetch_all(connection, ListedEvent, query("listed_events"), *asked)


async def newest_of_customer(
    connection: Connection, project_id: str, customer_key: int, chosen: EventFilter, *, before: int, limit: int
) -> list[ListedEvent]:
    """Newest first, with the events of customers that were merged into this one."""
    asked = project_id, customer_key, before, chosen.type, chosen.environment, limit
    return await fetch_all(connection, ListedEvent, query("listed_events_of_customer"), *asked)


async def newest_of_clock(
    connection: Connection, project_id: str, test_clock_id: str, *, customers: int, until: int, limit: int
) -> list[ListedEvent]:
    """Newest first, up to position `until`, of the `customers` on this clock who fall due first."""
    return await fetch_all(
        connection, ListedEvent, query("listed_events_of_clock"), project_id, test_clock_id, customers, until, limit
    )


async def after(connection: Connection, project_id: str, position: int, limit: int) -> list[ListedEvent]:
    """Oldest first."""
    return await fetch_all(connection, ListedEvent, query("events_after"), project_id, position, limit)


async def load(connection: Connection, project_id: str, event_id: str) -> EventDetails | None:
    row = await connection.fetchrow(query("shown_event"), project_id, event_id)
    if row is None:
        return None
    sent = await customers_storage.deliveries(connection, project_id, [(row["key"], row["sequence"])])
    return EventDetails(
        item_of(ListedEvent, row),
        row["body"],
        [delivery for delivery in sent.get(event_id, ()) if not delivery.is_gone],
    )


async def tallied(connection: Executor, project_id: str, events: Sequence[ListedEvent]) -> list[ListedEvent]:
    """The same events with the current counts of their deliveries."""
    if not events:
        return []
    sent = await customers_storage.deliveries(connection, project_id, [(event.key, event.sequence) for event in events])
    counted = {id: Counter(delivery.status for delivery in found if not delivery.is_gone) for id, found in sent.items()}
    return [replace(event, deliveries=DeliveryTally(**counted.get(event.id, Counter()))) for event in events]
