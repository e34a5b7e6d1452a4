"""Granting an entitlement to many customers: the preview, its confirmation, and what became of it.

The preview is a draft in the database with the customers it would reach. Confirmed, a process with the clock role works
through it; any number of processes may.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from uuid import uuid4

import structlog

from latchkey.database.errors import StateVersionError
from latchkey.database.pool import Database
from latchkey.database.transient_errors import PASSING
from latchkey.domain.access.entitlements import active
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers import promotion
from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.promotion import DURATIONS
from latchkey.domain.events.customer_event import event_id
from latchkey.domain.instants import MINUTE, Ms
from latchkey.domain.refusal import Conflict, Invalid, NotFound, OwnedByAnother, Refusal, found
from latchkey.engine.changes import Change, Changes, Situation
from latchkey.engine.due_transitions import at_present
from latchkey.engine.due_work import Lookout
from latchkey.engine.storage import scans
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.read_rows import load_projects
from latchkey.subjects.bulk_grants import storage
from latchkey.subjects.bulk_grants.rules import INCOMPLETE, BulkGrant, GrantTerms
from latchkey.subjects.bulk_grants.storage import GrantResult, Turn
from latchkey.subjects.segments.rules.filter import CustomerFilter, Sort
from latchkey.subjects.segments.usecases.customer_lists import in_words, list_page

MOST_CUSTOMERS = 10_000
TOO_MANY = f"A bulk grant has at most {MOST_CUSTOMERS:,} customers. Split the list."
# Customers that are read at once: other requests are served between two.
_AT_ONCE = 200
# Ids nobody has, and failures, that are shown.
MOST_SHOWN = 100
LISTED = 50


async def draft(
    database: Database,
    catalogs: Catalogs,
    project_id: str,
    terms: GrantTerms,
    wanted: CustomerFilter | Sequence[str],
    actor: str,
    now: Ms,
) -> BulkGrant:
    """A draft for the customers of a filter, or for those with these ids."""
    async with database.acquire() as connection:
        catalog = (await load_projects(connection, catalogs, {project_id}))[project_id].catalog
    _check(terms, catalog, now)
    unknown: list[str] = []
    if isinstance(wanted, CustomerFilter):
        reached, holders, complete = await _of_filter(database, project_id, wanted, terms.entitlement_id, catalog, now)
        source = f"the list: {in_words(wanted)}" if complete else f"the list: {in_words(wanted)}. {INCOMPLETE}"
    else:
        reached, holders, unknown = await _of_ids(database, project_id, wanted, terms.entitlement_id, catalog, now)
        source = "a list of ids"
    if not reached:
        said = "Nobody would get it: no customer is known by these ids or matches this filter."
        raise Invalid(said, param="filter" if isinstance(wanted, CustomerFilter) else "customer_ids")
    id = f"bulk_{uuid4().hex[:24]}"
    async with database.transaction() as connection:
        await storage.create(
            connection, project_id, id, terms, source, actor, reached, holders, unknown[:MOST_SHOWN], now
        )
    return await load(database, project_id, id)


async def load(database: Database, project_id: str, id: str) -> BulkGrant:
    return found(await storage.load(database, project_id, id), f"There is no bulk grant {id!r}.", "bulk_grant_id")


list_grants = storage.page


async def load_with_failures(database: Database, project_id: str, id: str) -> tuple[BulkGrant, list[tuple[str, str]]]:
    """With the ids of customers that did not get it, each with the reason."""
    grant = await load(database, project_id, id)
    return grant, await storage.failures(database, project_id, id, MOST_SHOWN) if grant.failed else []


async def start(database: Database, project_id: str, id: str, now: Ms) -> None:
    """Confirms a draft. Confirmed twice, it runs once."""
    if not await storage.set_state(database, project_id, id, "draft", "running", now, None):
        raise Conflict(f"This bulk grant is {(await load(database, project_id, id)).state} already.")


async def stop(database: Database, project_id: str, id: str, now: Ms) -> None:
    """Who has had their turn keeps the grant."""
    if not await storage.set_state(database, project_id, id, "running", "stopped", now, None):
        raise Conflict(f"This bulk grant does not run: it is {(await load(database, project_id, id)).state}.")


def _check(terms: GrantTerms, catalog: Catalog, now: Ms) -> None:
    if terms.entitlement_id not in catalog.entitlements:
        raise NotFound(f"There is no entitlement {terms.entitlement_id!r} in this project.", param="entitlement_id")
    if terms.duration is not None and terms.duration not in DURATIONS:
        raise Invalid(f"A duration is one of {', '.join(DURATIONS)}.", param="duration")
    if terms.ends_at is not None and terms.ends_at <= now:
        raise Refusal("The grant would end in the past.", param="expires_at")


async def _of_filter(
    database: Database, project_id: str, wanted: CustomerFilter, entitlement_id: str, catalog: Catalog, now: Ms
) -> tuple[list[tuple[int, str]], int, bool]:
    """The customers, how many of them have the entitlement, and whether everybody is in the lists."""
    found: list[tuple[int, str]] = []
    holders, after, complete = 0, None, True
    while True:
        page = await list_page(
            database, project_id, wanted, now, sort=Sort.KEY, after=after, limit=_AT_ONCE, whole=True
        )
        complete = complete and page.complete
        for entry in page.entries:
            found.append((entry.key, entry.app_user_id or ""))
            if entry.customer is not None:
                holders += _holds(entry.customer, entitlement_id, catalog, entry.now)
        if len(found) > MOST_CUSTOMERS:
            raise Invalid(TOO_MANY, param="filter")
        after = page.next
        if after is None:
            return found, holders, complete


async def _of_ids(
    database: Database, project_id: str, ids: Iterable[str], entitlement_id: str, catalog: Catalog, now: Ms
) -> tuple[list[tuple[int, str]], int, list[str]]:
    """The customers, how many of them have it, and the ids that nobody has. Two ids of a customer count once."""
    wanted = list(dict.fromkeys(ids))
    if len(wanted) > MOST_CUSTOMERS:
        raise Invalid(TOO_MANY, param="customer_ids")
    found: dict[int, str] = {}
    holders, unknown = 0, []
    for start in range(0, len(wanted), _AT_ONCE):
        chunk = wanted[start : start + _AT_ONCE]
        async with database.acquire() as connection:
            hits = await scans.by_ids(connection, project_id, chunk)
            keys = {hit.matched: hit.customer_id for hit in hits}
            fresh = {key for key in keys.values() if key not in found}
            people = await scans.by_keys(connection, project_id, fresh) if fresh else []
        unknown += [id for id in chunk if id not in keys]
        for person in people:
            found[person.key] = person.customer.app_user_id
            lives_at = now if person.clock_now is None else person.clock_now
            holders += _holds(person.customer, entitlement_id, catalog, lives_at)
    return list(found.items()), holders, unknown


def _holds(customer: Customer, entitlement_id: str, catalog: Catalog, now: Ms) -> bool:
    return entitlement_id in active(at_present(customer, catalog, now), catalog, now)


LEASE: Ms = 1 * MINUTE
# Customers at once: they share transactions, and other changes are not delayed.
AT_ONCE = 50
GONE = "The customer was erased after the preview."
BROKEN = "Latchkey failed on this customer. Its log says why."

log = structlog.get_logger()


class AlreadyHeld(Refusal):
    """The customer has the entitlement, and those who have it are left out."""


async def run_bulk_grants(lookout: Lookout, changes: Changes, now: Callable[[], Ms], stop: asyncio.Event) -> None:
    """Runs until the lookout ends. A running bulk grant is left to the next process when `stop` is set."""
    while await lookout.until(lambda seen: seen.bulk_grant_at) is not None:
        try:
            await run_next(changes, now, stop)
        except Exception:
            # The database may be unreachable. Bulk grants are then late; nothing else depends on them.
            log.exception("bulk grants failed")


async def run_next(changes: Changes, now: Callable[[], Ms], stop: asyncio.Event | None = None) -> bool:
    """Works through the bulk grant that waited longest. Returns whether there was one."""
    grant = await storage.claim(changes.database, now(), now() + LEASE)
    if grant is None:
        return False
    after = 0
    while stop is None or not stop.is_set():
        async with changes.database.acquire() as connection:
            turns = await storage.next_turns(connection, grant, after, AT_ONCE)
            if not turns:
                await storage.set_state(connection, grant.project_id, grant.id, "running", "done", now(), grant.token)
                log.info("bulk grant done", project_id=grant.project_id, bulk_grant_id=grant.id)
                return True
        tried = await asyncio.gather(*(_turn(changes, grant, turn) for turn in turns), return_exceptions=True)
        # They share transactions: the error of one may have met all of them.
        results = [
            await _alone(changes, grant, turn) if isinstance(result, BaseException) else result
            for turn, result in zip(turns, tried, strict=True)
        ]
        async with changes.database.transaction() as connection:
            await storage.record(connection, grant, results)
            if not await storage.renew(connection, grant, now() + LEASE):
                return True
        after = turns[-1].number
    return True


async def _alone(changes: Changes, grant: BulkGrant, turn: Turn) -> GrantResult:
    try:
        return await _turn(changes, grant, turn)
    except (*PASSING, StateVersionError):
        # Later, or by the newer process that has written the customer.
        raise
    except Exception:
        log.exception("bulk grant failed for a customer", bulk_grant_id=grant.id, customer=turn.customer_key)
        return GrantResult(turn.number, "failed", BROKEN)


async def _turn(changes: Changes, grant: BulkGrant, turn: Turn) -> GrantResult:
    id = event_id(grant.project_id, "bulk_grant", grant.id, turn.customer_key)

    def granted(situation: Situation) -> Customer:
        customer, now = situation.customer, situation.now
        if customer.purchase(promotion.STORE, id) is not None:
            return customer
        if grant.entitlement_id not in situation.catalog.entitlements:
            raise NotFound(
                f"There is no entitlement {grant.entitlement_id!r} in this project any more.", param="entitlement_id"
            )
        if grant.skip_holders and grant.entitlement_id in active(customer, situation.catalog, now):
            raise AlreadyHeld("The customer has it already.")
        ends_at = promotion.end_of(grant.duration, now) if grant.duration is not None else grant.ends_at
        return promotion.grant(customer, grant.entitlement_id, ends_at, now, duration=grant.duration, id=id)

    claims = frozenset({(promotion.STORE, id)})
    change = Change(project_id=grant.project_id, app_user_id=turn.app_user_id, apply=granted, claims=claims)
    try:
        await changes.make(change)
    except AlreadyHeld:
        return GrantResult(turn.number, "skipped")
    except OwnedByAnother:
        # Granted before this process took over, and since then moved to another customer.
        return GrantResult(turn.number, "granted")
    except NotFound as missing:
        # Without the id: the customer was erased, so nothing may keep it.
        gone = missing.param != "entitlement_id"
        return GrantResult(turn.number, "failed", GONE if gone else missing.message)
    except Refusal as refusal:
        return GrantResult(turn.number, "failed", refusal.message)
    return GrantResult(turn.number, "granted")


forget = storage.forget
