"""The audit log."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from latchkey.database.pool import Connection, Record
from latchkey.database.rows import item_of
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.subjects.audit.rules import AuditEntry, Outcome

_BEGIN = query("begin_audit_entry")
_FINISH = query("finish_audit_entry")
_FORGET = query("forget_in_audit_entries")
_LIST = query("list_audit_entries")

# A position after every entry. With a nullable condition the query could not seek within the index.
END = 2**63 - 1


async def begin(
    connection: Connection,
    *,
    project_id: str | None,
    account_id: str | None,
    actor: str,
    action: str,
    subject: str,
    address: str,
    now: Ms,
) -> int:
    """A new entry without an outcome; returns its position."""
    position: int = await connection.fetchval(
        _BEGIN, project_id, now, account_id, actor, action, subject, b"{}", address
    )
    return position


async def finish(
    connection: Connection,
    position: int,
    outcome: Outcome,
    subject: str,
    detail: Mapping[str, Any],
    account_id: str | None,
    actor: str | None,
) -> None:
    """Sets `account_id` only if the entry has none; `actor` replaces the entry's actor."""
    encoded = msgspec.json.encode(dict(detail))
    await connection.execute(_FINISH, position, outcome, subject, encoded, account_id, actor)


async def forget(connection: Connection, project_id: str, ids: Collection[str], stand_in: str) -> None:
    """Replaces these customer ids in all entries."""
    await connection.execute(_FORGET, project_id, list(ids), stand_in)


async def page(
    connection: Connection,
    project_id: str,
    before: int,
    limit: int,
    *,
    action: str | None = None,
    account_id: str | None = None,
    actor: str | None = None,
    since: Ms | None = None,
    until: Ms | None = None,
) -> list[AuditEntry]:
    """Newest first: what was done in the project, and what its members did to their accounts. `actor` is one without an
    account, such as the command line. From `since` until before `until`: only what was done in the project."""
    rows = await connection.fetch(_LIST, project_id, before, action, limit, account_id, actor, since, until)
    return [_entry(row) for row in rows]


async def load(connection: Connection, project_id: str, position: int) -> AuditEntry | None:
    """None: there is no such entry, or this project may not see it."""
    found = await page(connection, project_id, position + 1, 1)
    return found[0] if found and found[0].position == position else None


def _entry(row: Record) -> AuditEntry:
    return item_of(AuditEntry, row, detail=msgspec.json.decode(row["detail"]))
