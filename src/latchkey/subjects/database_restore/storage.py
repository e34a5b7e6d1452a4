"""The statements of `latchkey admin after-restore`. A failover needs some too: `database/database_identity.py`."""

from latchkey.database.pool import Connection, Executor
from latchkey.database.rows import executes, fetches_value, finds_value
from latchkey.database.sql import affected, query
from latchkey.domain.instants import Ms

HandleKey = tuple[str, bytes]
FIRST: HandleKey = ("", b"")


async def running_services(connection: Executor) -> dict[str, int]:
    """The service's processes that are connected, as their connections are named, with the number of connections."""
    return {row["name"]: row["connections"] for row in await connection.fetch(query("running_services"))}


# Of a project, since an instant.
events_since = finds_value(int, query("count_events_since"))
finish = executes(query("finish_restore"))
# End the leases of dead workers on the next lanes. Returns how many.
free = fetches_value(int, query("free_lanes"))


async def hold(connection: Connection, reason: str, now: Ms, limit: int) -> tuple[int, int]:
    """Take what waits in the next lanes out of the queue, as failed. Returns how many lanes and deliveries."""
    ((lanes, deliveries),) = await connection.fetch(query("hold_lanes"), limit, now, reason)
    return lanes, deliveries


async def reset_queues(connection: Connection, now: Ms, reason: str | None) -> dict[str, int]:
    """Of everything but lanes. With a reason, what waits is stopped or held; returns how much of what."""
    stopped = {}
    if reason is not None:
        ((replays, events),) = await connection.fetch(query("stop_replays_and_announcements"), now, reason)
        stopped = {"replays stopped": replays, "operational events held": events}
    await connection.execute(query("reset_webhook_health"))
    await connection.execute(query("free_exports"))
    return stopped


async def read_histories_again(connection: Connection, read_to: Ms) -> int:
    """The stores' own histories of notifications are read at once, from where they were last read."""
    return affected(await connection.execute(query("read_histories_again"), read_to))


async def read_purchases_again(
    connection: Connection, project_id: str, after: HandleKey, since: Ms, first: Ms, apart: int, limit: int
) -> tuple[int, HandleKey | None]:
    """Read a project's next purchases from their stores: one `apart` milliseconds after the other, from `first` on.
    Those that a store was expected to report on, and those it has reported on `since` a moment. Returns how many
    there were, and the last key."""
    row = await connection.fetchrow(query("read_purchases_again"), project_id, *after, since, first, apart, limit)
    return (0, None) if row is None else (row["purchases"], (row["store"], row["handle_hash"]))
