"""Works through bulk grants that were confirmed. In the clock role; any number of processes may.

A process claims a grant with a lease and renews it with every batch. When it is killed, the lease runs out and another
process goes on where the outcomes end. A customer of the interrupted batch may have its turn twice, and still gets one
grant: the grant's id is made of the bulk grant's and the customer's, and a grant that exists is not given again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from latchkey.domain.access.entitlements import active
from latchkey.domain.customers import promotion
from latchkey.domain.customers.customer import Customer
from latchkey.domain.events.event import event_id
from latchkey.domain.instants import MINUTE, Ms
from latchkey.domain.refusal import NotFound, Refusal
from latchkey.storage.customer_lists import bulk_grants
from latchkey.storage.customer_lists.bulk_grants import BulkGrant, Result, Turn
from latchkey.usecases.engine.changes import Change, Changes, Situation
from latchkey.usecases.engine.lookout import Lookout

LEASE: Ms = 1 * MINUTE
# Customers at once: they share transactions, and other changes are not delayed.
AT_ONCE = 50
GONE = "The customer was erased after the preview."

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
    async with changes.database.transaction() as connection:
        grant = await bulk_grants.claim(connection, now(), now() + LEASE)
    if grant is None:
        return False
    after = 0
    while stop is None or not stop.is_set():
        async with changes.database.acquire() as connection:
            turns = await bulk_grants.next_turns(connection, grant, after, AT_ONCE)
            if not turns:
                await bulk_grants.finish(connection, grant, now())
                log.info("bulk grant done", project_id=grant.project_id, bulk_grant_id=grant.id)
                return True
        results = await asyncio.gather(*(_turn(changes, grant, one) for one in turns))
        async with changes.database.transaction() as connection:
            await bulk_grants.record(connection, grant, results)
            if not await bulk_grants.renew(connection, grant, now() + LEASE):
                return True
        after = turns[-1].number
    return True


async def _turn(changes: Changes, grant: BulkGrant, turn: Turn) -> Result:
    terms = grant.terms
    id = event_id(grant.project_id, "bulk_grant", grant.id, turn.customer_key)

    def granted(situation: Situation) -> Customer:
        customer, now = situation.customer, situation.now
        if customer.purchase(promotion.STORE, id) is not None:
            return customer
        if terms.entitlement_id not in situation.catalog.entitlements:
            raise NotFound(
                f"There is no entitlement {terms.entitlement_id!r} in this project any more.", param="entitlement_id"
            )
        if terms.skip_holders and terms.entitlement_id in active(customer, situation.catalog, now):
            raise AlreadyHeld("The customer has it already.")
        ends_at = promotion.end_of(terms.duration, now) if terms.duration is not None else terms.ends_at
        return promotion.grant(customer, terms.entitlement_id, ends_at, now, duration=terms.duration, id=id)

    try:
        await changes.make(Change(project_id=grant.project_id, app_user_id=turn.app_user_id, apply=granted))
    except AlreadyHeld:
        return Result(turn.number, "skipped")
    except NotFound as missing:
        # Without the id: the customer was erased, so nothing may keep it.
        gone = missing.param != "entitlement_id"
        return Result(turn.number, "failed", GONE if gone else missing.message)
    except Refusal as refusal:
        return Result(turn.number, "failed", refusal.message)
    return Result(turn.number, "granted")
