"""Finding customers as people know them: by an id, an e-mail address, a transaction, or the beginning of one.

Every way costs a lookup by an index, however many customers there are. Whatever matches as a whole is the answer; only
where nothing does, or all is asked for, beginnings are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from latchkey.domain.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.storage.catalogs import Catalogs
from latchkey.storage.customers import folded
from latchkey.storage.database import Connection, Database, Record
from latchkey.storage.sql import query
from latchkey.usecases.changes import load_projects
from latchkey.usecases.reading import Row
from latchkey.usecases.view import LastSeen, View

_WALK = query("walk_in_order")
_NEWEST = query("newest_customers")
_BY_KEY = query("customers_by_key")
_BY_ID = query("customers_by_whole_id")
_BY_EMAIL = query("customers_by_whole_email")
_BY_TRANSACTION = query("customers_by_transaction")
_BY_START_OF_ID = query("customers_by_start_of_id")
_BY_START_OF_EMAIL = query("customers_by_start_of_email")

# Longer than anything that could be found: ids have 100 characters, e-mail addresses 500.
LONGEST = 500
_SEPARATOR = "\x1f"
_LAST = "\U0010ffff"
_END = 2**63 - 1


class By(StrEnum):
    ID = "id"
    EMAIL = "e-mail"
    TRANSACTION = "transaction"


@dataclass(frozen=True, slots=True)
class Match:
    view: View
    by: By
    # The id, address or transaction that was found.
    matched: str


@dataclass(frozen=True, slots=True)
class Found:
    matches: list[Match]
    # Whether the text is all of what was found, and not only its beginning.
    whole: bool = False
    # More begin like this than are shown.
    more: bool = False
    # The transaction is known, and whoever made it was erased.
    erased: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    views: list[View]
    # Where the next page begins.
    before: int | None = None


async def newest(
    database: Database, catalogs: Catalogs, project_id: str, now: Ms, *, before: int | None = None, limit: int = 50
) -> Listing:
    """The project's customers, those who came last first."""
    async with database.acquire() as connection:
        rows = await connection.fetch(_NEWEST, project_id, before or _END, limit + 1)
        views = await _views(connection, catalogs, project_id, rows[:limit], now)
    return Listing(views, rows[limit - 1]["id"] if len(rows) > limit else None)


async def search(
    database: Database,
    catalogs: Catalogs,
    project_id: str,
    text: str,
    now: Ms,
    *,
    everything: bool = False,
    limit: int = 50,
) -> Found:
    """Whoever this text names; with `everything`, also those of whom it is only the beginning."""
    if not text.strip() or len(text) > LONGEST or _SEPARATOR in text or "\0" in text:
        return Found([])
    async with database.transaction(readonly=True) as connection:
        await connection.execute(_WALK)
        whole, erased = await _whole(connection, project_id, text, limit)
        matches = await _matches(connection, catalogs, project_id, whole, now)
        matches = [one for one in matches if one.by is not By.TRANSACTION or made(one.view.customer, text.strip())]
        if matches and not everything:
            return Found(matches, whole=True)
        begun = await _beginnings(connection, project_id, text.strip(), limit + 1)
        seen = {one.view.key for one in matches}
        others = {key: how for key, how in begun.items() if key not in seen}
        more = len(others) > limit
        matches += await _matches(connection, catalogs, project_id, dict(list(others.items())[:limit]), now)
    return Found(matches, more=more, erased=erased and not matches)


def made(customer: Customer, transaction_id: str) -> bool:
    """Whether this is a transaction of the customer: a purchase, or one period of a subscription."""
    known = {period.id for one in customer.subscriptions for period in one.periods}
    known.update(one.id for one in customer.subscriptions)
    known.update(one.id for one in customer.purchases)
    return transaction_id in known


def possible_purchases(transaction_id: str) -> list[str]:
    """The purchases that this may be a transaction of: stores name a later period after the first one, with a number
    behind one or two dots."""
    shorter = transaction_id.rpartition(".")[0].rstrip(".")
    return [transaction_id, shorter] if shorter else [transaction_id]


async def _whole(
    connection: Connection, project_id: str, text: str, limit: int
) -> tuple[dict[int, tuple[By, str]], bool]:
    trimmed = text.strip()
    found: dict[int, tuple[By, str]] = {}
    # An id may begin with a space, so it is looked for as it was typed, too.
    for row in await connection.fetch(_BY_ID, project_id, list({text, trimmed})):
        found.setdefault(row["customer_id"], (By.ID, row["matched"]))
    for row in await connection.fetch(_BY_EMAIL, project_id, folded(trimmed), limit):
        found.setdefault(row["customer_id"], (By.EMAIL, row["matched"]))
    erased = False
    for row in await connection.fetch(_BY_TRANSACTION, project_id, possible_purchases(trimmed)):
        if row["customer_id"] is None:
            erased = True
        else:
            found.setdefault(row["customer_id"], (By.TRANSACTION, trimmed))
    return found, erased


async def _beginnings(connection: Connection, project_id: str, text: str, limit: int) -> dict[int, tuple[By, str]]:
    start = folded(text)
    key = f"{project_id}{_SEPARATOR}{start}"
    ids = await connection.fetch(_BY_START_OF_ID, project_id, key, key + _LAST, limit)
    emails = await connection.fetch(_BY_START_OF_EMAIL, project_id, start, start + _LAST, limit)
    found: dict[int, tuple[By, str]] = {}
    for by, rows in ((By.ID, ids), (By.EMAIL, emails)):
        for row in rows:
            found.setdefault(row["customer_id"], (by, row["matched"]))
    return found


async def _matches(
    connection: Connection, catalogs: Catalogs, project_id: str, found: dict[int, tuple[By, str]], now: Ms
) -> list[Match]:
    if not found:
        return []
    rows = await connection.fetch(_BY_KEY, project_id, list(found))
    views = {view.key: view for view in await _views(connection, catalogs, project_id, rows, now)}
    return [Match(views[key], by, matched) for key, (by, matched) in found.items() if key in views]


async def _views(
    connection: Connection, catalogs: Catalogs, project_id: str, rows: Iterable[Record], now: Ms
) -> list[View]:
    catalog = (await load_projects(connection, catalogs, {project_id}))[project_id].catalog
    return [
        Row(key, state, catalog, clock_now, LastSeen(at, platform, system, app, country)).view(now)
        for key, state, clock_now, at, platform, system, app, country in rows
    ]
