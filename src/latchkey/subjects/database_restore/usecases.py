"""What has to be done once after a database was restored, before the service starts on it.

The restored database believes that deliveries wait which were sent long ago, and it would give sequences, positions and
keys to new events that receivers have already seen with others. And stores have sent notifications
meanwhile. Every step can be interrupted and repeated: what is done is not done again.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import structlog
from msgspec import Struct, field

from latchkey.database import database_identity
from latchkey.database.pool import Connection, Database
from latchkey.domain.instants import DAY, HOUR, Ms
from latchkey.domain.refusal import Conflict
from latchkey.domain.restore import Origin
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.database_restore import storage
from latchkey.subjects.projects.usecases import list_projects

log = structlog.get_logger()

ACTION = "database.restored"
HELD = "Not sent: the database was restored, and this may have been sent before. Send it again if you want it."
LANES_AT_ONCE = 2_000
PURCHASES_AT_ONCE = 5_000
# Google forgets a purchase 60 days after its end; whatever is older has been told.
SPOKEN_ABOUT: Ms = 60 * DAY


class RestoreOptions(Struct, frozen=True):
    # Send what waited when the backup was made, instead of holding it.
    send_waiting: bool = False
    # Nothing was committed after the moment of the backup: only note the new server.
    nothing_lost: bool = False
    # Do everything again, although it was done for this restore.
    again: bool = False
    purchases_per_minute: int = 600


class Report(Struct):
    origin: Origin
    done_before: Ms | None = None
    counts: dict[str, int] = field(default_factory=dict)


async def after_restore(
    database: Database,
    wanted: RestoreOptions,
    now: Ms,
    *,
    actor: str,
    told: Callable[[str, int], None] = lambda _step, _count: None,
) -> Report:
    """`told` is called with each step's name and what it has done so far."""
    async with database.acquire() as connection:
        origin, server = await database_identity.look(connection)
        if server is None:
            raise Conflict("This server is a standby. Run `latchkey admin after-restore` on the primary.")
        if wanted.nothing_lost:
            await database_identity.note(connection, server, is_unclear=False)
            await storage.finish(connection, now, *server)
            return Report(origin)
        if running := await storage.running_services(connection):
            names = ", ".join(f"{name} ({count} connections)" for name, count in running.items())
            raise Conflict(f"The service is running on this database: {names}. Stop all of its processes first.")
        begun = await database_identity.begin(connection, server)
        projects = [project.id for project in await list_projects(connection)]
        if begun.finished_at is not None and not wanted.again:
            # With events since then, this may be a copy of the whole server, which looks like the server.
            events = [await storage.events_since(connection, id, begun.finished_at) for id in projects]
            if not any(events):
                await database_identity.note(connection, server, is_unclear=False)
                return Report(origin, done_before=begun.finished_at)
    report = Report(origin)

    def count(step: str, more: int) -> None:
        report.counts[step] = report.counts.get(step, 0) + more
        told(step, report.counts[step])

    about: dict[str, Any] = {"account_id": None, "actor": actor, "action": ACTION, "now": now}
    entries = [await audit.begin(database, project_id=id, subject="after-restore", **about) for id in projects]
    if begun.moved_at is None or begun.finished_at is not None or wanted.again:
        heads = await database_identity.feed_heads(database)
        # One transaction: what has moved on is not moved on again when this is repeated.
        async with _unhurried(database) as moving:
            await database_identity.skip_ahead(moving, server, heads, now)
        count("projects moved on", len(heads))
    await _quiet(database, wanted, now, count)
    await _ask_stores(database, projects, wanted, now, count)
    async with database.transaction() as connection:
        await storage.finish(connection, now, *server)
        await database_identity.note(connection, server, is_unclear=False)
    for position in entries:
        await audit.finish(database, position, "done", "after-restore", report.counts)
    return report


async def _quiet(database: Database, wanted: RestoreOptions, now: Ms, count: Callable[[str, int], None]) -> None:
    while True:
        async with _unhurried(database) as connection:
            if wanted.send_waiting:
                lanes = await storage.free(connection, LANES_AT_ONCE, now)
            else:
                lanes, deliveries = await storage.hold(connection, HELD, now, LANES_AT_ONCE)
                count("deliveries held", deliveries)
        if lanes == 0:
            break
    async with _unhurried(database) as connection:
        stopped = await storage.reset_queues(connection, now, None if wanted.send_waiting else HELD)
    for step, amount in stopped.items():
        count(step, amount)


async def _ask_stores(
    database: Database, projects: list[str], wanted: RestoreOptions, now: Ms, count: Callable[[str, int], None]
) -> None:
    async with _unhurried(database) as connection:
        # An hour is how often a history is read.
        count("histories of stores to read", await storage.read_histories_again(connection, now - HOUR))
    first = now
    apart = max(1, 60_000 // wanted.purchases_per_minute)
    for id in projects:
        after: storage.HandleKey | None = storage.FIRST
        while after is not None:
            async with _unhurried(database) as connection:
                found, after = await storage.read_purchases_again(
                    connection, id, after, now - SPOKEN_ABOUT, first, apart, PURCHASES_AT_ONCE
                )
            if found:
                count("purchases to read from their stores", found)
                first += apart * found


def _unhurried(database: Database) -> AbstractAsyncContextManager[Connection]:
    """A transaction without a time limit."""
    return database.transaction(statement_timeout_ms=0, lock_timeout_ms=0)
