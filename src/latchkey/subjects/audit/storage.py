"""The audit log."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from latchkey.database.pool import Connection, Database
from latchkey.database.rows import item_of
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.subjects.audit.rules import AuditEntry, Outcome

LONGEST_SUBJECT = 500
# A position after every entry. With a nullable condition the query could not seek within the index.
END = 2**63 - 1


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
    """Written before anything is changed, so that there is no change without an entry. Returns its position."""
    subject = subject[:LONGEST_SUBJECT]
    entry = project_id, now, account_id, actor, action, subject, b"{}", address
    position: int = await database.pool.fetchval(query("begin_audit_entry"), *entry)
    return position


async def finish(
    database: Database,
    position: int,
    outcome: Outcome,
    subject: str = "",
    detail: Mapping[str, Any] | None = None,
    *,
    account_id: str | None = None,
    actor: str | None = None,
) -> None:
    """`account_id` is the account that was changed, and `actor` who did it, if they were not known at the beginning."""
    ended = outcome, subject[:LONGEST_SUBJECT], _encoded(dict(detail or {})), account_id, actor
    await database.pool.execute(query("finish_audit_entry"), position, *ended)


def _encoded(value: Any) -> bytes:
    """JSON without a quote inside a text, so that what is between two quotes is a whole text."""
    return msgspec.json.encode(value).replace(rb"\\", rb"\u005c").replace(rb"\"", rb"\u0022")


# No change that is under way has begun so many entries ago. To read them takes a tenth of a second.
_UNFINISHED = 10_000


async def forget(connection: Connection, project_id: str, ids: Collection[str], name: str, after: int = 0) -> int:
    """For an erased customer: replaces these ids in all entries after a position, however long that takes. Gives the
    position after which entries may name them again: changes that are under way finish theirs."""
    await connection.execute("set local statement_timeout = 0")
    newest: int = await connection.fetchval(query("newest_audit_entry"), project_id)
    texts = [_encoded(id)[1:-1].decode() for id in ids]
    await connection.execute(query("forget_in_audit_entries"), project_id, ids, texts, name, after)
    return newest - _UNFINISHED


async def page(
    database: Database,
    project_id: str,
    before: int | None,
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
    chosen = action, limit, account_id, actor, since, until
    rows = await database.pool.fetch(
        query("list_audit_entries"), project_id, END if before is None else before, *chosen
    )
    return [item_of(AuditEntry, row, detail=msgspec.json.decode(row["detail"])) for row in rows]


async def load(database: Database, project_id: str, position: int) -> AuditEntry | None:
    """None: there is no such entry, or this project may not see it."""
    found = await page(database, project_id, position + 1, 1)
    return found[0] if found and found[0].position == position else None
