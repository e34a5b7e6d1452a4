"""Grants to many customers: the preview is right, and each customer gets exactly one grant, whatever is killed."""

import asyncio
import sys
from typing import Any
from unittest.mock import AsyncMock

import pytest

from latchkey.database.errors import OutageError, StateVersionError
from latchkey.database.pool import Connection
from latchkey.domain.customers import promotion
from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.identity import ERASED
from latchkey.domain.instants import DAY, MINUTE
from latchkey.domain.refusal import Conflict, Invalid, NotFound, Refusal
from latchkey.subjects.bulk_grants import storage as bulk_grants
from latchkey.subjects.bulk_grants import usecases as bulk
from latchkey.subjects.bulk_grants.rules import BulkGrant, GrantTerms
from latchkey.subjects.bulk_grants.usecases import GONE, run_next
from latchkey.subjects.customers.usecases.edits import erase
from latchkey.subjects.customers.usecases.identities import log_in, transfer
from latchkey.subjects.segments.rules.filter import CustomerFilter
from latchkey.subjects.test_clocks.usecases import create_customer
from tests.engine.fixtures import Core
from tests.engine.random_lives import ANONYMOUS
from tests.patience import PATIENCE


def terms(duration: str | None = "monthly", *, skip: bool = True, ends_at: int | None = None) -> GrantTerms:
    return GrantTerms(entitlement_id="pro", duration=duration, ends_at=ends_at, skip_holders=skip)


async def prepared(core: Core, wanted: CustomerFilter | list[str], what: GrantTerms) -> BulkGrant:
    return await bulk.draft(
        core.database, core.changes.catalogs, core.project_id, what, wanted, "ann@example.com", core.time
    )


async def done(core: Core, grant: BulkGrant) -> BulkGrant:
    await bulk.start(core.database, core.project_id, grant.id, core.time)
    assert await run_next(core.changes, lambda: core.time)
    assert not await run_next(core.changes, lambda: core.time)
    return await bulk.load(core.database, core.project_id, grant.id)


async def grants(core: Core) -> int:
    found: int = await core.database.pool.fetchval(
        "select count(*) from events where type = 'NON_RENEWING_PURCHASE' and body->>'store' ilike 'promotional'"
    )
    return found


async def test_the_preview_counts_holders_and_names_unknown_ids(core: Core) -> None:
    await core.act("purchase", user="alice", product="pro_monthly")
    await create_customer(core.changes, core.project_id, "bob")
    await create_customer(core.changes, core.project_id, ANONYMOUS[0])
    await log_in(core.changes, core.project_id, ANONYMOUS[0], "carol")
    draft = await prepared(core, ["alice", "bob", "nobody", "bob", ANONYMOUS[0], "carol"], terms())
    assert (draft.state, draft.total, draft.holders, draft.unknown_ids) == ("draft", 3, 1, ["nobody"])
    assert await grants(core) == 0, "a preview changes no customer"
    assert not await run_next(core.changes, lambda: core.time), "a draft does not run"
    result = await done(core, draft)
    assert (result.state, result.granted, result.skipped, result.failed) == ("done", 2, 1, 0)
    assert await grants(core) == 2
    with pytest.raises(Conflict):
        await bulk.start(core.database, core.project_id, draft.id, core.time)


async def test_who_was_erased_meanwhile_fails_and_leaves_no_name(core: Core) -> None:
    for user in ("ann", "ben"):
        await create_customer(core.changes, core.project_id, user)
    draft = await prepared(core, ["ann", "ben"], terms(None))
    await erase(core.changes, core.project_id, "ann")
    result = await done(core, draft)
    assert (result.granted, result.failed) == (1, 1)
    _, [(name, error)] = await bulk.load_with_failures(core.database, core.project_id, draft.id)
    assert (name, error) == (ERASED, GONE)
    await core.database.pool.execute("update bulk_grant_customers set outcome = 'failed', error = 'no ben here'")
    await erase(core.changes, core.project_id, "ben")
    _, failures = await bulk.load_with_failures(core.database, core.project_id, draft.id)
    assert (ERASED, "") in failures, "an error may quote the id"


@pytest.mark.parametrize(
    ("what", "ids", "refusal"),
    [
        (GrantTerms(entitlement_id="none", duration=None, ends_at=None, skip_holders=True), ["ann"], NotFound),
        (terms("fortnightly"), ["ann"], Invalid),
        (terms(None, ends_at=1), ["ann"], Refusal),
        (terms(), ["nobody"], Invalid),
        (terms(), [], Invalid),
        (terms(), [f"user{number}" for number in range(bulk.MOST_CUSTOMERS + 1)], Invalid),
    ],
    ids=["entitlement", "duration", "past", "unknown", "nobody", "too many"],
)
async def test_what_cannot_be_is_refused(core: Core, what: GrantTerms, ids: list[str], refusal: type[Refusal]) -> None:
    await create_customer(core.changes, core.project_id, "ann")
    with pytest.raises(refusal):
        await prepared(core, ids, what)


async def test_of_two_who_start_at_once_the_second_is_told_that_it_runs(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create_customer(core.changes, core.project_id, "ann")
    draft = await prepared(core, ["ann"], terms())
    set_state = bulk_grants.set_state

    async def overtaken(connection: Connection, *what: Any) -> bool:
        assert await set_state(connection, *what), "somebody else"
        return await set_state(connection, *what)

    monkeypatch.setattr(bulk_grants, "set_state", overtaken)
    with pytest.raises(Conflict, match="is running already"):
        await bulk.start(core.database, core.project_id, draft.id, core.time)


async def test_a_stopped_grant_reaches_nobody_else_and_old_drafts_go(core: Core) -> None:
    await create_customer(core.changes, core.project_id, "ann")
    draft = await prepared(core, ["ann"], terms())
    await bulk.start(core.database, core.project_id, draft.id, core.time)
    await bulk.stop(core.database, core.project_id, draft.id, core.time)
    assert not await run_next(core.changes, lambda: core.time)
    assert await grants(core) == 0
    old = await prepared(core, ["ann"], terms())
    core.time += DAY + MINUTE
    await prepared(core, ["ann"], terms())
    with pytest.raises(NotFound):
        await bulk.load(core.database, core.project_id, old.id)


RUNNER = """
import asyncio, sys
from latchkey.database.pool import Database
from latchkey.subjects.bulk_grants import usecases as bulk_runner
from latchkey.engine.changes import Changes
from latchkey.engine.due_work import Lookout

async def main():
    bulk_runner.AT_ONCE = 5
    now = lambda: int(sys.argv[2])
    async with Database(sys.argv[1], max_size=3) as database:
        lookout, stop = Lookout(database, now), asyncio.Event()
        granting = bulk_runner.run_bulk_grants(lookout, Changes(database, now), now, stop)
        await asyncio.gather(lookout.run(stop), granting)

asyncio.run(main())
"""
CUSTOMERS = 150


@pytest.mark.processes
async def test_killed_amid_its_work_it_gives_each_customer_one_grant(core: Core) -> None:
    ids = [f"user{number}" for number in range(CUSTOMERS)]
    await asyncio.gather(*(create_customer(core.changes, core.project_id, id) for id in ids))
    draft = await prepared(core, ids, terms())
    await bulk.start(core.database, core.project_id, draft.id, core.time)
    for goal in (CUSTOMERS // 5, CUSTOMERS):
        runner = await asyncio.create_subprocess_exec(sys.executable, "-c", RUNNER, core.database.url, str(core.time))
        try:
            async with asyncio.timeout(PATIENCE):
                while await grants(core) < goal:  # noqa: ASYNC110 - another process writes it
                    await asyncio.sleep(0.005)
        finally:
            runner.kill()
            await runner.wait()
        core.time += 2 * MINUTE  # the lease of the killed process runs out
    while (await bulk.load(core.database, core.project_id, draft.id)).state != "done":
        await run_next(core.changes, lambda: core.time)
    result = await bulk.load(core.database, core.project_id, draft.id)
    assert (result.granted, result.skipped, result.failed) == (CUSTOMERS, 0, 0)
    owned = await core.database.pool.fetch(
        "select customer_id, count(*) from purchase_owners where store = 'promotional' group by customer_id"
    )
    assert [row["count"] for row in owned] == [1] * CUSTOMERS
    assert await grants(core) == CUSTOMERS


async def test_a_grant_that_went_to_somebody_else_before_it_was_noted_was_given_and_stops_nobody(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("ann", "ben"):
        await create_customer(core.changes, core.project_id, user)
    draft = await prepared(core, ["ann", "ben"], terms(skip=False))
    await bulk.start(core.database, core.project_id, draft.id, core.time)
    with monkeypatch.context() as patched:
        patched.setattr(bulk_grants, "record", AsyncMock(side_effect=asyncio.CancelledError))
        with pytest.raises(asyncio.CancelledError):
            await run_next(core.changes, lambda: core.time)
    await transfer(core.changes, core.project_id, "ann", "ben")
    core.time += 2 * MINUTE
    assert await run_next(core.changes, lambda: core.time)
    result = await bulk.load(core.database, core.project_id, draft.id)
    assert (result.state, result.granted, result.failed) == ("done", 2, 0)
    assert await grants(core) == 2
    owned = await core.database.pool.fetch("select store_id from purchase_owners where store = 'promotional'")
    assert len(owned) == 2


async def test_one_customer_on_whom_the_rules_fail_stops_nobody_else(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("ann", "ben", "cid"):
        await create_customer(core.changes, core.project_id, user)
    draft, grant = await prepared(core, ["ann", "ben", "cid"], terms()), promotion.grant

    def failing(customer: Customer, *about: Any, **more: Any) -> Customer:
        if customer.app_user_id == "ben":
            raise KeyError("a secret of the code")
        return grant(customer, *about, **more)

    monkeypatch.setattr(promotion, "grant", failing)
    result = await done(core, draft)
    assert (result.state, result.granted, result.failed) == ("done", 2, 1)
    _, failures = await bulk.load_with_failures(core.database, core.project_id, draft.id)
    assert failures == [("ben", bulk.BROKEN)]


@pytest.mark.parametrize("error", [OutageError("gone"), StateVersionError("a newer Latchkey has written it")])
async def test_what_passes_is_tried_again_by_the_next_process(
    core: Core, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    await create_customer(core.changes, core.project_id, "ann")
    draft = await prepared(core, ["ann"], terms())
    await bulk.start(core.database, core.project_id, draft.id, core.time)
    with monkeypatch.context() as patched:
        patched.setattr(core.changes, "make", AsyncMock(side_effect=error))
        with pytest.raises(type(error)):
            await run_next(core.changes, lambda: core.time)
    core.time += 2 * MINUTE
    assert await run_next(core.changes, lambda: core.time)
    assert (await bulk.load(core.database, core.project_id, draft.id)).granted == 1
