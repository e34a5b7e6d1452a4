"""The statements of `latchkey admin after-restore`, of which a failover needs one part too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import json

from latchkey.domain.instants import Ms
from latchkey.domain.restore import CUSTOMERS, POSITIONS, SEQUENCES, Server
from latchkey.storage.sql import affected, query

if TYPE_CHECKING:
    # Which uses this for each connection that it makes.
    from latchkey.storage.database import Connection

_RUNNING = query("running_services")
_BEGIN = query("begin_restore")
_MOVED = query("note_moved")
_FINISH = query("finish_restore")
_PROJECTS = query("list_projects")
_UNFINISHED = query("lossy_failovers")
_HEADS = query("feed_heads")
_RAISE_FLOORS = query("raise_sequence_floors")
_MOVE_FEEDS = query("move_feeds_on")
_MOVE_KEYS = query("move_customer_keys_on")
_MOVE_KEYS_OF_PROJECTS = query("move_customer_keys_of_projects_on")
_HOLD = query("hold_lanes")
_FREE = query("free_lanes")
_STOP_REPLAYS = query("stop_replays")
_HOLD_ANNOUNCEMENTS = query("hold_announcements")
_RESET_HEALTH = query("reset_webhook_health")
_FREE_EXPORTS = query("free_exports")
_READ_HISTORIES = query("read_histories_again")
_READ_PURCHASES = query("read_purchases_again")

HandleKey = tuple[str, bytes]
FIRST: HandleKey = ("", b"")


@dataclass(frozen=True, slots=True)
class Restore:
    started_at: Ms
    moved_at: Ms | None
    finished_at: Ms | None


async def running_services(connection: Connection) -> dict[str, int]:
    """The service's processes that are connected, as their connections are named, with the number of connections."""
    return {row["name"]: row["connections"] for row in await connection.fetch(_RUNNING)}


async def begin(connection: Connection, server: Server, now: Ms) -> Restore:
    key = server.system_identifier, server.database_oid, server.timeline
    row = await connection.fetchrow(_BEGIN, *key, now)
    assert row is not None, "an insert or update returns its row"
    return Restore(row["started_at"], row["moved_at"], row["finished_at"])


async def finish(connection: Connection, server: Server, counts: Mapping[str, int], now: Ms) -> None:
    key = server.system_identifier, server.database_oid, server.timeline
    await connection.execute(_FINISH, now, json.encode(counts), *key)


async def lossy_failovers(connection: Connection) -> int:
    """How many may have lost commits, and `after-restore` has not run since."""
    found: int = await connection.fetchval(_UNFINISHED)
    return found


async def projects(connection: Connection) -> list[str]:
    return [row["id"] for row in await connection.fetch(_PROJECTS)]


async def feed_heads(connection: Connection) -> dict[str, int]:
    """The newest position of each project. Not in the transaction of `skip_ahead`: Citus changes no reference table
    after it has read from several nodes."""
    return {row["project_id"]: row["position"] for row in await connection.fetch(_HEADS)}


async def skip_ahead(connection: Connection, server: Server, heads: Mapping[str, int], now: Ms) -> None:
    """In a transaction: new events and customers get numbers above all that can have been given."""
    await connection.execute(_RAISE_FLOORS, list(heads), list(heads.values()), SEQUENCES, POSITIONS)
    await connection.execute(_MOVE_FEEDS, POSITIONS)
    await connection.execute(_MOVE_KEYS_OF_PROJECTS, CUSTOMERS)
    await connection.execute(_MOVE_KEYS, CUSTOMERS)
    await connection.execute(_MOVED, server.system_identifier, server.database_oid, server.timeline, now)


async def hold(connection: Connection, reason: str, now: Ms, limit: int) -> tuple[int, int]:
    """Take what waits in the next lanes out of the queue, as failed. Returns how many lanes and deliveries."""
    row = await connection.fetchrow(_HOLD, limit, now, reason)
    assert row is not None
    return row["lanes"], row["deliveries"]


async def free(connection: Connection, now: Ms, limit: int) -> int:
    """End the leases of dead workers on the next lanes. Returns how many."""
    found: int = await connection.fetchval(_FREE, limit, now)
    return found


async def stop_replays(connection: Connection, now: Ms) -> int:
    return affected(await connection.execute(_STOP_REPLAYS, now))


async def hold_announcements(connection: Connection, reason: str) -> int:
    return affected(await connection.execute(_HOLD_ANNOUNCEMENTS, reason))


async def reset_health(connection: Connection) -> None:
    await connection.execute(_RESET_HEALTH)


async def free_exports(connection: Connection) -> None:
    await connection.execute(_FREE_EXPORTS)


async def read_histories_again(connection: Connection, read_to: Ms) -> int:
    """The stores' own histories of notifications are read at once, from where they were last read."""
    return affected(await connection.execute(_READ_HISTORIES, read_to))


async def read_purchases_again(
    connection: Connection, project_id: str, after: HandleKey, since: Ms, first: Ms, apart: int, limit: int
) -> tuple[int, HandleKey | None]:
    """Read a project's next purchases from their stores: one `apart` milliseconds after the other, from `first` on.
    Those that a store was expected to report on, and those it has reported on `since` a moment. Returns how many
    there were, and the last key."""
    row = await connection.fetchrow(_READ_PURCHASES, project_id, *after, since, first, apart, limit)
    if row is None:
        return 0, None
    return row["purchases"], (row["store"], row["handle_hash"])
