"""The audit log: who changed what, when, from where, and how it went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from latchkey.domain.instants import Ms
from latchkey.storage.database import Database
from latchkey.storage.sql import query

BEGIN = query("begin_audit_entry")
FINISH = query("finish_audit_entry")
LIST = query("list_audit_entries")

Outcome = Literal["begun", "done", "refused", "failed"]

LONGEST_SUBJECT = 500


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
    database: Database, position: int, outcome: Outcome, subject: str = "", detail: Mapping[str, Any] | None = None
) -> None:
    async with database.acquire() as connection:
        await connection.execute(
            FINISH, position, outcome, subject[:LONGEST_SUBJECT], msgspec.json.encode(dict(detail or {}))
        )


async def entries(
    database: Database,
    project_id: str,
    *,
    before: int | None = None,
    actor: str | None = None,
    action: str | None = None,
    limit: int = 50,
) -> list[Entry]:
    """Newest first."""
    async with database.acquire() as connection:
        rows = await connection.fetch(LIST, project_id, before, actor, action, limit)
    return [
        Entry(position, project, at, account, by, done, subject, outcome, msgspec.json.decode(detail), address)
        for position, project, at, account, by, done, subject, outcome, detail, address in rows
    ]
