"""Searching customers by an id, an e-mail address, a transaction, or a prefix of an id or address.

Every lookup uses an index, however many customers there are. Exact matches come first. Prefixes are looked up only if
there is no exact match, or if `everything` is requested.
"""

import re
from collections.abc import Iterable
from enum import StrEnum

import msgspec
from msgspec import Struct

from latchkey.database.pool import Connection, Database
from latchkey.domain.customers.customer import Customer, own_now
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.reference import has_transaction, possible_purchases
from latchkey.domain.refusal import NotFound
from latchkey.engine.due_transitions import at_present
from latchkey.engine.reads import CustomerView
from latchkey.engine.storage import scans
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.read_rows import load_projects
from latchkey.engine.storage.scans import FoundCustomer
from latchkey.subjects.events.rules import EventDetails
from latchkey.subjects.events.usecases import show_event
from latchkey.subjects.search import storage
from latchkey.subjects.search.storage import Named as Named

# Longer text cannot match: ids have up to 100 characters, e-mail addresses 500.
LONGEST_SEARCH = 500


class By(StrEnum):
    ID = "id"
    EMAIL = "e-mail"
    TRANSACTION = "transaction"


class Match(Struct, frozen=True):
    view: CustomerView
    by: By
    # The id, address or transaction that was found.
    matched: str


class SearchResults(Struct, frozen=True):
    matches: list[Match]
    # Whether the match is exact, not a prefix.
    whole: bool = False
    # More customers match than are shown.
    more: bool = False
    # The transaction is known, but its customer was erased.
    erased: bool = False


class SearchPage(Struct, frozen=True):
    views: list[CustomerView]
    # Where the next page begins.
    before: int | None = None


async def newest(
    database: Database, catalogs: Catalogs, project_id: str, now: Ms, *, before: int | None = None, limit: int = 50
) -> SearchPage:
    """The project's customers, newest first."""
    async with database.acquire() as connection:
        found = await storage.newest(connection, project_id, before, limit + 1)
        views = await _views(connection, catalogs, project_id, found[:limit], now)
    return SearchPage(views, found[limit - 1].key if len(found) > limit else None)


async def search(
    database: Database,
    catalogs: Catalogs,
    project_id: str,
    text: str,
    now: Ms,
    *,
    everything: bool = False,
    limit: int = 50,
) -> SearchResults:
    """Customers with an exact match; with `everything`, also prefix matches."""
    if not text.strip() or len(text) > LONGEST_SEARCH or storage.SEPARATOR in text or "\0" in text:
        return SearchResults([])
    async with database.transaction(readonly=True) as connection:
        whole, erased = await _whole(connection, project_id, text, limit)
        matches = await _matches(connection, catalogs, project_id, whole, now)
        matches = [
            match for match in matches if match.by is not By.TRANSACTION or made(match.view.customer, text.strip())
        ]
        if matches and not everything:
            return SearchResults(matches, whole=True)
        begun = await _beginnings(connection, project_id, text.strip(), limit + 1)
        seen = {match.view.key for match in matches}
        others = {key: how for key, how in begun.items() if key not in seen}
        more = len(others) > limit
        matches += await _matches(connection, catalogs, project_id, dict(list(others.items())[:limit]), now)
    return SearchResults(matches, more=more, erased=erased and not matches)


async def of_transaction(
    database: Database, catalogs: Catalogs, project_id: str, transaction_id: str, now: Ms
) -> list[CustomerView]:
    """The customers who own a purchase with this id in a store, or with a period of this id."""
    async with database.acquire() as connection:
        owners = await storage.by_purchases(connection, project_id, possible_purchases(transaction_id))
        keys = {key for key in owners if key is not None}
        found = await scans.by_keys(connection, project_id, keys) if keys else []
        return await _views(connection, catalogs, project_id, found, now)


def made(customer: Customer, transaction_id: str) -> bool:
    """Whether this is a transaction of the customer: a purchase or a period of a subscription."""
    in_subscriptions = any(has_transaction(subscription, transaction_id) for subscription in customer.subscriptions)
    return in_subscriptions or any(has_transaction(purchase, transaction_id) for purchase in customer.purchases)


async def _whole(
    connection: Connection, project_id: str, text: str, limit: int
) -> tuple[dict[int, tuple[By, str]], bool]:
    """Exact matches by customer key; and whether it is a purchase of an erased customer."""
    trimmed = text.strip()
    found: dict[int, tuple[By, str]] = {}
    # An id may begin with a space, so the untrimmed text is looked up too.
    for hit in await scans.by_ids(connection, project_id, {text, trimmed}):
        found.setdefault(hit.customer_id, (By.ID, hit.matched))
    for hit in await storage.by_email(connection, project_id, trimmed, limit, whole=True):
        found.setdefault(hit.customer_id, (By.EMAIL, hit.matched))
    owners = await storage.by_purchases(connection, project_id, possible_purchases(trimmed))
    for owner in owners:
        if owner is not None:
            found.setdefault(owner, (By.TRANSACTION, trimmed))
    return found, None in owners


async def _beginnings(connection: Connection, project_id: str, text: str, limit: int) -> dict[int, tuple[By, str]]:
    ids = await storage.by_start_of_id(connection, project_id, text, limit)
    emails = await storage.by_email(connection, project_id, text, limit, whole=False)
    found: dict[int, tuple[By, str]] = {}
    for by, hits in ((By.ID, ids), (By.EMAIL, emails)):
        for hit in hits:
            found.setdefault(hit.customer_id, (by, hit.matched))
    return found


async def _matches(
    connection: Connection, catalogs: Catalogs, project_id: str, found: dict[int, tuple[By, str]], now: Ms
) -> list[Match]:
    if not found:
        return []
    customers = await scans.by_keys(connection, project_id, found)
    views = {view.key: view for view in await _views(connection, catalogs, project_id, customers, now)}
    return [Match(views[key], by, matched) for key, (by, matched) in found.items() if key in views]


async def _views(
    connection: Connection, catalogs: Catalogs, project_id: str, found: Iterable[FoundCustomer], now: Ms
) -> list[CustomerView]:
    catalog = (await load_projects(connection, catalogs, {project_id}))[project_id].catalog
    views = []
    for customer in found:
        at = now if customer.clock_now is None else own_now(customer.customer, customer.clock_now)
        views.append(
            CustomerView(customer.key, at_present(customer.customer, catalog, at), catalog, at, customer.last_seen)
        )
    return views


# Longer text is nobody's id or name.
LONGEST_FINDING = 400
# A single letter is the beginning of too much.
SHORTEST = 2
_EVENT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class Findings(Struct, frozen=True):
    """Customers, some by a transaction; an event; and what has a name in the project."""

    results: SearchResults
    event: EventDetails | None = None
    named: list[Named] = msgspec.field(default_factory=list)


async def find(
    database: Database, catalogs: Catalogs, project_id: str, text: str, now: Ms, *, limit: int = 6
) -> Findings:
    trimmed = text.strip()
    if len(trimmed) < SHORTEST or len(text) > LONGEST_FINDING or "\0" in text:
        return Findings(SearchResults([]))
    found = await search(database, catalogs, project_id, text, now, everything=True, limit=limit)
    event = await _event(database, project_id, trimmed) if _EVENT_ID.fullmatch(trimmed) else None
    named = await storage.by_name(database, project_id, trimmed, 2 * limit)
    return Findings(found, event, named)


async def _event(database: Database, project_id: str, id: str) -> EventDetails | None:
    try:
        return await show_event(database, project_id, id.lower())
    except NotFound:
        return None
