"""The journal as operators see it: list, examine, process again."""

from __future__ import annotations

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import NotFound
from latchkey.domain.stores.store import STORES
from latchkey.storage.database import Database
from latchkey.storage.stores import journal
from latchkey.storage.stores.journal import Entry, Filter, Status

PREFIX = "ntf_"
MOST_COUNTED = 1000
# A purchase token of Google Play has about 150 characters.
_BEGINNING = 16
# The largest id that the database holds.
_LARGEST = 2**63 - 1


def name_of(entry: Entry) -> str:
    return f"{PREFIX}{entry.id}"


def subject_of(entry: Entry, *, trusted: bool) -> str | None:
    """Which purchase an entry is about. Who may not write sees only the beginning of a purchase token: shown as a
    receipt, a whole one would move the purchase to another customer."""
    if trusted or entry.subject is None or entry.source == "receipt" or not STORES[entry.store].names_are_receipts:
        return entry.subject
    return entry.subject[:_BEGINNING] + "…"


async def page(database: Database, project_id: str, wanted: Filter, *, after: str | None, limit: int) -> list[Entry]:
    """Newest first."""
    async with database.acquire() as connection:
        before = None
        if after is not None:
            before = _number(after, "starting_after")
            if await journal.load(connection, project_id, before) is None:
                raise NotFound(f"There is no notification {after!r} to start after.", param="starting_after")
        return await journal.page(connection, project_id, before, wanted, limit)


async def load(database: Database, project_id: str, id: str) -> Entry:
    async with database.acquire() as connection:
        return _found(await journal.load(connection, project_id, _number(id, "notification_id")), id)


async def reprocess(database: Database, project_id: str, id: str, now: Ms) -> Entry:
    """It waits again and is processed at once. Doing it twice changes nothing."""
    async with database.transaction() as connection:
        return _found(await journal.reprocess(connection, project_id, _number(id, "notification_id"), now), id)


async def reprocess_since(
    database: Database, project_id: str, since: Ms, status: Status | None, app_id: str | None, now: Ms
) -> int:
    async with database.transaction() as connection:
        return await journal.reprocess_all(connection, project_id, now, since, status, app_id)


async def count_failed(database: Database, project_id: str) -> int:
    """How many failed, at most `MOST_COUNTED`: the journal may hold millions."""
    async with database.acquire() as connection:
        return await journal.count_failed(connection, project_id, MOST_COUNTED)


def _number(id: str, param: str) -> int:
    digits = id.removeprefix(PREFIX)
    if id.startswith(PREFIX) and digits.isascii() and digits.isdigit() and int(digits[:20]) <= _LARGEST:
        return int(digits[:20])
    raise NotFound(f"There is no notification {id[:100]!r}.", param=param)


def _found(entry: Entry | None, id: str) -> Entry:
    if entry is None:
        raise NotFound(f"There is no notification {id!r}.", param="notification_id")
    return entry
