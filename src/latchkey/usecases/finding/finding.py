"""One text, looked up everywhere in a project: customers, transactions, events, and things by their names.

Every lookup is by an index, or over a list that is short by its limit. It costs the same with ten customers and with
ten million, so it can run while somebody types.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import NotFound
from latchkey.storage import finding
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.database import Database
from latchkey.storage.finding import Named
from latchkey.usecases.customers.search import By, Match, search
from latchkey.usecases.events.listing import Shown, show_event

# Longer text is nobody's id or name.
LONGEST = 400
# A single letter is the beginning of too much.
SHORTEST = 2
_EVENT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Findings:
    customers: list[Match] = field(default_factory=list)
    # Customers who own a transaction with this id.
    buyers: list[Match] = field(default_factory=list)
    event: Shown | None = None
    named: list[Named] = field(default_factory=list)
    # More customers match than are listed.
    more: bool = False
    # The transaction is known, but its customer was erased.
    erased: bool = False


async def find(
    database: Database, catalogs: Catalogs, project_id: str, text: str, now: Ms, *, limit: int = 6
) -> Findings:
    trimmed = text.strip()
    if len(trimmed) < SHORTEST or len(text) > LONGEST or "\0" in text:
        return Findings()
    found = await search(database, catalogs, project_id, text, now, everything=True, limit=limit)
    event = await _event(database, project_id, trimmed) if _EVENT_ID.fullmatch(trimmed) else None
    async with database.acquire() as connection:
        named = await finding.by_name(connection, project_id, trimmed, 2 * limit)
    return Findings(
        [one for one in found.matches if one.by is not By.TRANSACTION],
        [one for one in found.matches if one.by is By.TRANSACTION],
        event,
        named,
        found.more,
        found.erased,
    )


async def _event(database: Database, project_id: str, id: str) -> Shown | None:
    try:
        return await show_event(database, project_id, id.lower())
    except NotFound:
        return None
