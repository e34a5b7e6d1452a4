"""Events for the dashboard, with counts of their deliveries. Every query reads a bounded number of rows."""

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from latchkey.database.pool import Executor
from latchkey.database.rows import fetches_all, finds_value, item_of
from latchkey.database.sql import query
from latchkey.engine.storage import event_feed
from latchkey.subjects.events.rules import DeliveryTally, EventDetails, ListedEvent

# The position of the project's newest event; None if there is none.
head = finds_value(int, query("feed_head"))
# Newest first: before a position, and not before another one; of a type and of an environment, or any.
newest = fetches_all(ListedEvent, query("listed_events"))
# The same with the events of customers that were merged into this one.
newest_of_customer = fetches_all(ListedEvent, query("listed_events_of_customer"))
# Newest first, of so many customers on a clock who fall due first, up to a position.
newest_of_clock = fetches_all(ListedEvent, query("listed_events_of_clock"))
# Oldest first.
after = fetches_all(ListedEvent, query("events_after"))


async def load(connection: Executor, project_id: str, event_id: str) -> EventDetails | None:
    row = await connection.fetchrow(query("shown_event"), project_id, event_id)
    if row is None:
        return None
    sent = await event_feed.deliveries(connection, project_id, [(row["key"], row["sequence"])])
    return EventDetails(
        item_of(ListedEvent, row),
        row["body"],
        [delivery for delivery in sent.get(event_id, ()) if not delivery.is_gone],
    )


async def tallied(connection: Executor, project_id: str, events: Sequence[ListedEvent]) -> list[ListedEvent]:
    """The same events with the current counts of their deliveries."""
    if not events:
        return []
    sent = await event_feed.deliveries(connection, project_id, [(event.key, event.sequence) for event in events])
    counted = {id: Counter(delivery.status for delivery in found if not delivery.is_gone) for id, found in sent.items()}
    return [replace(event, deliveries=DeliveryTally(**counted.get(event.id, Counter()))) for event in events]
