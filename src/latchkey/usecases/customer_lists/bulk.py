"""Granting an entitlement to many customers: the preview, its confirmation, and what became of it.

The preview is a draft in the database with the customers it would reach. Confirmed, `bulk_runner.py` works through it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import uuid4

from latchkey.domain.access.entitlements import active
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.filter import Filter, Sort
from latchkey.domain.customers.promotion import DURATIONS
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Conflict, Invalid, NotFound, Refusal
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.customer_lists import bulk_grants
from latchkey.storage.customer_lists.bulk_grants import BulkGrant as BulkGrant
from latchkey.storage.customer_lists.bulk_grants import Terms as Terms
from latchkey.storage.customers import search as customer_search
from latchkey.storage.database import Database
from latchkey.usecases.customer_lists.listing import list_page
from latchkey.usecases.customer_lists.words import in_words
from latchkey.usecases.engine.changes import load_projects
from latchkey.usecases.engine.passing_time import at_present

MOST_CUSTOMERS = 10_000
# Customers that are read at once: other requests are served between two.
_AT_ONCE = 200
# Ids nobody has, and failures, that are shown.
MOST_SHOWN = 100
LISTED = 50
# Said of a filter if the lists did not have everybody: shortly after somebody new came, or after an import.
INCOMPLETE = "Some new customers were not in the lists yet: for them, make the preview again in a while"


async def draft(
    database: Database,
    catalogs: Catalogs,
    project_id: str,
    terms: Terms,
    wanted: Filter | Sequence[str],
    actor: str,
    now: Ms,
) -> BulkGrant:
    """A draft for the customers of a filter, or for those with these ids."""
    async with database.acquire() as connection:
        catalog = (await load_projects(connection, catalogs, {project_id}))[project_id].catalog
    _check(terms, catalog, now)
    unknown: list[str] = []
    if isinstance(wanted, Filter):
        found, holders, complete = await _of_filter(database, project_id, wanted, terms.entitlement_id, catalog, now)
        source = f"the list: {in_words(wanted)}" if complete else f"the list: {in_words(wanted)}. {INCOMPLETE}"
    else:
        found, holders, unknown = await _of_ids(database, project_id, wanted, terms.entitlement_id, catalog, now)
        source = "a list of ids"
    if not found:
        said = "Nobody would get it: no customer is known by these ids or matches this filter."
        raise Invalid(said, param=_param(wanted))
    id = f"bulk_{uuid4().hex[:24]}"
    async with database.transaction() as connection:
        await bulk_grants.create(
            connection, project_id, id, terms, source, actor, found, holders, unknown[:MOST_SHOWN], now
        )
    return await load(database, project_id, id)


async def load(database: Database, project_id: str, id: str) -> BulkGrant:
    async with database.acquire() as connection:
        found = await bulk_grants.load(connection, project_id, id)
    if found is None:
        raise NotFound(f"There is no bulk grant {id!r}.", param="bulk_grant_id")
    return found


async def newest(database: Database, project_id: str) -> list[BulkGrant]:
    """Those that were started. Outcomes are not counted here."""
    async with database.acquire() as connection:
        return await bulk_grants.newest(connection, project_id, LISTED)


async def list_grants(database: Database, project_id: str, *, after: str | None, limit: int) -> list[BulkGrant]:
    """By id, previews included. Outcomes are not counted here."""
    async with database.acquire() as connection:
        return await bulk_grants.page(connection, project_id, after, limit)


async def failures(database: Database, project_id: str, id: str) -> list[tuple[str, str]]:
    """Ids of customers that did not get it, each with the reason."""
    async with database.acquire() as connection:
        return await bulk_grants.failures(connection, project_id, id, MOST_SHOWN)


async def start(database: Database, project_id: str, id: str, now: Ms) -> None:
    """Confirms a draft. Confirmed twice, it runs once."""
    async with database.acquire() as connection:
        started = await bulk_grants.start(connection, project_id, id, now)
    if not started:
        grant = await load(database, project_id, id)
        raise Conflict(f"This bulk grant is {grant.state} already.")


async def stop(database: Database, project_id: str, id: str, now: Ms) -> None:
    """Who has had their turn keeps the grant."""
    async with database.acquire() as connection:
        stopped = await bulk_grants.stop(connection, project_id, id, now)
    if not stopped:
        grant = await load(database, project_id, id)
        raise Conflict(f"This bulk grant does not run: it is {grant.state}.")


def _check(terms: Terms, catalog: Catalog, now: Ms) -> None:
    if terms.entitlement_id not in catalog.entitlements:
        raise NotFound(f"There is no entitlement {terms.entitlement_id!r} in this project.", param="entitlement_id")
    if terms.duration is not None and terms.duration not in DURATIONS:
        raise Invalid(f"A duration is one of {', '.join(DURATIONS)}.", param="duration")
    if terms.ends_at is not None and terms.ends_at <= now:
        raise Refusal("The grant would end in the past.", param="expires_at")


def _too_many(wanted: Filter | Sequence[str]) -> Invalid:
    return Invalid(f"A bulk grant has at most {MOST_CUSTOMERS:,} customers. Split the list.", param=_param(wanted))


def _param(wanted: Filter | Sequence[str]) -> str:
    return "filter" if isinstance(wanted, Filter) else "customer_ids"


async def _of_filter(
    database: Database, project_id: str, wanted: Filter, entitlement_id: str, catalog: Catalog, now: Ms
) -> tuple[list[tuple[int, str]], int, bool]:
    """The customers, how many of them have the entitlement, and whether everybody is in the lists."""
    found: list[tuple[int, str]] = []
    holders, after, complete = 0, None, True
    while True:
        page = await list_page(
            database, project_id, wanted, now, sort=Sort.KEY, after=after, limit=_AT_ONCE, whole=True
        )
        complete = complete and page.complete
        for one in page.entries:
            found.append((one.key, one.app_user_id or ""))
            if one.customer is not None:
                holders += _holds(one.customer, entitlement_id, catalog, one.now)
        if len(found) > MOST_CUSTOMERS:
            raise _too_many(wanted)
        after = page.next
        if after is None:
            return found, holders, complete


async def _of_ids(
    database: Database, project_id: str, ids: Iterable[str], entitlement_id: str, catalog: Catalog, now: Ms
) -> tuple[list[tuple[int, str]], int, list[str]]:
    """The customers, how many of them have it, and the ids that nobody has. Two ids of a customer count once."""
    wanted = list(dict.fromkeys(ids))
    if len(wanted) > MOST_CUSTOMERS:
        raise _too_many(wanted)
    found: dict[int, str] = {}
    holders, unknown = 0, []
    for start in range(0, len(wanted), _AT_ONCE):
        chunk = wanted[start : start + _AT_ONCE]
        async with database.acquire() as connection:
            hits = await customer_search.by_ids(connection, project_id, set(chunk))
            keys = {hit.matched: hit.customer_key for hit in hits}
            fresh = {key for key in keys.values() if key not in found}
            people = await customer_search.by_keys(connection, project_id, fresh) if fresh else []
        unknown += [id for id in chunk if id not in keys]
        for one in people:
            found[one.key] = one.customer.app_user_id
            holders += _holds(one.customer, entitlement_id, catalog, now if one.clock_now is None else one.clock_now)
    return list(found.items()), holders, unknown


def _holds(customer: Customer, entitlement_id: str, catalog: Catalog, now: Ms) -> bool:
    return entitlement_id in active(at_present(customer, catalog, now), catalog, now)
