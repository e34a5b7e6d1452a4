"""The journal of what stores and phones sent.

A notification is filed when it is known to be authentic, a receipt when it was taken in or could not be; only then is
the sender answered. An entry waits until a worker takes it, and ends as applied, ignored (it says nothing about a
purchase) or failed. A worker holds it by moving `next_at` on: if the worker dies, the entry is due again when that
moment has passed.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager

import asyncpg
from msgspec import json
from msgspec.structs import fields

from latchkey.database.errors import InvalidValueError
from latchkey.database.pool import Connection, Database, Executor, Record
from latchkey.database.rows import fetches_value
from latchkey.database.sql import affected, query
from latchkey.database.transient_errors import listening as listening_to
from latchkey.domain.instants import Ms
from latchkey.subjects.purchase_intake.rules import JournalEntry, JournalFilter, JournalOutcome, NewEntry

_HOLD = query("hold_notifications")
_PRUNED_AT_ONCE = 1000

# Also used by the query `file_notifications`.
_CHANNEL = "latchkey_stores"


def listening(database: Database, heard: Callable[[], None]) -> AbstractAsyncContextManager[asyncio.Event]:
    """Call `heard` when something was filed. The event is set when the connection is lost."""
    return listening_to(database, _CHANNEL, lambda _: heard())


async def file(connection: Executor, entries: Sequence[NewEntry]) -> dict[tuple[str, str, str], int]:
    """The ids of those that are new or reopened, by project, app and external id. Raises InvalidValueError if one of
    them cannot be stored: its project may just have been deleted."""
    # In the order of the query's parameters.
    columns = {field.name: [getattr(entry, field.name) for entry in entries] for field in fields(NewEntry)}
    columns["checked"] = [json.encode(checked) for checked in columns["checked"]]
    columns["event_ids"] = [",".join(ids) for ids in columns["event_ids"]]
    try:
        rows = await connection.fetch(query("file_notifications"), *columns.values())
    except (asyncpg.DataError, asyncpg.ForeignKeyViolationError) as error:
        raise InvalidValueError(str(error)) from error
    return {(row["project_id"], row["app_id"], row["external_id"]): row["id"] for row in rows}


async def claim(connection: Executor, now: Ms, lease_until: Ms, limit: int, busy: Sequence[str]) -> list[JournalEntry]:
    """Those that are due, except of apps and stores that are busy."""
    rows = await connection.fetch(query("claim_notifications"), now, lease_until, limit, busy)
    return [_entry(row) for row in rows]


async def hold(connection: Executor, ids: Iterable[int], lease_until: Ms) -> None:
    """Their worker is still at it."""
    await connection.execute(_HOLD, sorted(ids), lease_until, None)


async def finish(connection: Executor, outcomes: Sequence[JournalOutcome], now: Ms) -> None:
    rows = [(one.id, one.status, one.message, now, one.app_user_id, ",".join(one.event_ids)) for one in outcomes]
    await connection.execute(query("finish_notifications"), *zip(*rows, strict=True))


async def postpone(connection: Executor, id: int, message: str, until: Ms) -> None:
    await connection.execute(_HOLD, [id], until, message)


async def hurry_receipts(
    connection: Executor, project_id: str, app_id: str, since: Ms, now: Ms, lease_until: Ms
) -> bool:
    """Have the receipts processed that could not be checked when they were shown. False: there are none."""
    count: int = await connection.fetchval(query("hurry_receipts"), project_id, app_id, now, lease_until, since)
    return count > 0


# Of a project: whether another customer than this one has shown a receipt with this subject.
shown_by_another = fetches_value(bool, query("receipt_shown_by_another"))
# Of a project and a store: whether a customer with these app user ids has shown a receipt since a moment.
shown_since = fetches_value(bool, query("receipt_shown_since"))
# How many entries of a project failed, at most so many.
count_failed = fetches_value(int, query("count_failed_notifications"))


async def load(connection: Executor, project_id: str, id: int) -> JournalEntry | None:
    row = await connection.fetchrow(query("list_notifications"), project_id, *[None] * 7, 1, id)
    return None if row is None else _entry(row)


async def page(
    connection: Connection, project_id: str, before: int | None, wanted: JournalFilter, limit: int
) -> list[JournalEntry]:
    """Newest first."""
    filters = (wanted.app_id, wanted.status, wanted.kind, wanted.subject, wanted.since, wanted.until)
    rows = await connection.fetch(query("list_notifications"), project_id, before, *filters, limit, None)
    return [_entry(row) for row in rows]


async def reprocess(connection: Executor, project_id: str, now: Ms, *which: Ms | str | None) -> int:
    """How many are processed again: those since a moment, of a status and of an app, or the one with this id."""
    return affected(await connection.execute(query("reprocess_notifications"), project_id, now, *which))


async def prune(connection: Executor, before: Ms) -> bool:
    """Remove a batch of finished entries. True: there may be more."""
    return affected(await connection.execute(query("prune_notifications"), before, _PRUNED_AT_ONCE)) == _PRUNED_AT_ONCE


def _entry(row: Record) -> JournalEntry:
    return JournalEntry(**{**row, "checked": json.decode(row["checked"]), "event_ids": tuple(row["event_ids"])})
