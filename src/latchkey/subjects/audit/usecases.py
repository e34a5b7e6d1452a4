"""The audit log: who changed what, when, from where, and with which outcome."""

from latchkey.database.pool import Database
from latchkey.subjects.accounts.usecases.accounts import known_account
from latchkey.subjects.audit import storage
from latchkey.subjects.audit.rules import AuditEntry

begin = storage.begin
finish = storage.finish
entry = storage.load
forget = storage.forget
page = storage.page


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
    account = None
    if actor is not None:
        account = await known_account(database, email=actor.strip().lower())
    by = {"actor": actor} if account is None else {"account_id": account.id}
    return await storage.page(database, project_id, before, limit, action=action, **by)
