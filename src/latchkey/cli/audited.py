"""The audit log of changes made on the command line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from latchkey.domain.refusal import Refusal
from latchkey.now import real_now
from latchkey.storage.database import Database
from latchkey.usecases.access import audit

ACTOR = "the command line"


@asynccontextmanager
async def audited(
    database: Database,
    project_id: str | None,
    action: str,
    subject: str,
    *,
    account_id: str | None = None,
    afterwards: str = "",
    **detail: str,
) -> AsyncIterator[None]:
    """As on a page: the entry is written before the change, and completed with the outcome. `afterwards` is
    the subject of the finished entry, where it is another: of a person that was erased, no id stays."""
    position = await audit.begin(
        database,
        project_id=project_id,
        account_id=account_id,
        actor=ACTOR,
        action=action,
        now=real_now(),
        subject=subject,
    )
    try:
        yield
    except Refusal as refusal:
        await audit.finish(database, position, "refused", subject, {**detail, "refusal": refusal.message})
        raise
    await audit.finish(database, position, "done", afterwards or subject, detail)
