"""The audit log: who changed what, when, from where, and with which outcome."""

from collections.abc import Collection, Mapping
from typing import Any

from latchkey.database.pool import Connection, Database
from latchkey.domain.instants import Ms
from latchkey.subjects.accounts.usecases.accounts import account_of_address
from latchkey.subjects.audit import storage
from latchkey.subjects.audit.rules import AuditEntry, Outcome

LONGEST_SUBJECT = 500


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
    async with database.acquire() as connection:
        return await storage.begin(
            connection,
            project_id=project_id,
            account_id=account_id,
            actor=actor,
            action=action,
            subject=subject[:LONGEST_SUBJECT],
            address=address,
            now=now,
        )


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
    async with database.acquire() as connection:
        await storage.finish(connection, position, outcome, subject[:LONGEST_SUBJECT], detail or {}, account_id, actor)


async def entries(
    database: Database,
    project_id: str,
    *,
    before: int | None = None,
    actor: str | None = None,
    action: str | None = None,
    limit: int = 50,
) -> list[AuditEntry]:
    """Newest first: what was done in the project, and what its members did to their accounts."""
    before = storage.END if before is None else before
    async with database.acquire() as connection:
        account = None if actor is None else await account_of_address(connection, actor.strip().lower())
        by = {"actor": actor} if account is None else {"account_id": account.id}
        return await storage.page(connection, project_id, before, limit, action=action, **by)


async def between(
    database: Database, project_id: str, *, before: int | None, since: Ms, until: Ms, limit: int
) -> list[AuditEntry]:
    """Newest first: what was done in the project from `since` until before `until`."""
    async with database.acquire() as connection:
        start = storage.END if before is None else before
        return await storage.page(connection, project_id, start, limit, since=since, until=until)


async def entry(database: Database, project_id: str, position: int) -> AuditEntry | None:
    async with database.acquire() as connection:
        return await storage.load(connection, project_id, position)


async def forget(connection: Connection, project_id: str, ids: Collection[str], instead: str) -> None:
    """For an erased customer: replaces these ids."""
    await storage.forget(connection, project_id, ids, instead)
