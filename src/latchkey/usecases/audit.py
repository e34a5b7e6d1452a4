"""The audit log: who changed what, when, from where, and how it went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from latchkey.domain.instants import Ms
from latchkey.storage.database import Database, Record
from latchkey.storage.sql import query

BEGIN = query("begin_audit_entry")
FINISH = query("finish_audit_entry")
LIST = query("list_audit_entries")
LIST_OF = query("list_audit_entries_of")
LIST_BY = query("list_audit_entries_by")
LOAD = query("load_audit_entry")
ACCOUNT_CALLED = query("find_account")

Outcome = Literal["begun", "done", "refused", "failed"]

LONGEST_SUBJECT = 500
# Before which every entry is. A condition that may be null could not lead into the middle of an index.
NEWEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Entry:
    position: int
    project_id: str | None
    at: Ms
    account_id: str | None
    actor: str
    action: str
    subject: str
    outcome: Outcome
    detail: Mapping[str, Any]
    address: str


async def begin(
    database: Database,
    *,
    project_id: str | None,
    account_id: str | None,
    actor: str,
    action: str,
    now: Ms,
    subject: str = "",
    address: str = "",
) -> int:
    """Written before anything is changed, so that no change can go unseen."""
    async with database.acquire() as connection:
        position: int = await connection.fetchval(
            BEGIN, project_id, now, account_id, actor, action, subject[:LONGEST_SUBJECT], b"{}", address
        )
    return position


async def finish(
    database: Database,
    position: int,
    outcome: Outcome,
    subject: str = "",
    detail: Mapping[str, Any] | None = None,
    *,
    account_id: str | None = None,
) -> None:
    """`account_id` is whose account it was about, where that was not known when it began."""
    encoded = msgspec.json.encode(dict(detail or {}))
    async with database.acquire() as connection:
        await connection.execute(FINISH, position, outcome, subject[:LONGEST_SUBJECT], encoded, account_id)


async def entries(
    database: Database,
    project_id: str,
    *,
    before: int | None = None,
    actor: str | None = None,
    action: str | None = None,
    limit: int = 50,
) -> list[Entry]:
    """Newest first: what was done in the project, and what its members did to their accounts."""
    before = NEWEST if before is None else before
    async with database.acquire() as connection:
        if actor is None:
            rows = await connection.fetch(LIST, project_id, before, action, limit)
        else:
            account_id = await connection.fetchval(ACCOUNT_CALLED, actor.strip().lower())
            wanted, whom = (LIST_BY, actor) if account_id is None else (LIST_OF, account_id)
            rows = await connection.fetch(wanted, project_id, before, action, limit, whom)
    return [_entry(row) for row in rows]


async def entry(database: Database, project_id: str, position: int) -> Entry | None:
    async with database.acquire() as connection:
        row = await connection.fetchrow(LOAD, project_id, position)
    return None if row is None else _entry(row)


def _entry(row: Record) -> Entry:
    values: list[Any] = list(row)
    values[8] = msgspec.json.decode(values[8])
    return Entry(*values)
