"""The preview of a change to the mapping, compared with what the change does to every customer."""

import random
from collections import Counter

import pytest

from latchkey.domain.access.entitlements import Grant, Remapping, active
from latchkey.domain.instants import DAY
from latchkey.domain.refusal import NotFound, Refusal
from latchkey.domain.stores.test_store.orders import ActionName
from latchkey.engine import clock as customer_walk
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.state import decode
from latchkey.subjects.catalog.usecases.entitlement_catalog import (
    create_entitlement,
    load_grid,
    preview_mapping,
    save_mapping,
)
from latchkey.subjects.catalog.usecases.product_catalog import delete_product
from latchkey.subjects.customers.usecases.edits import grant
from latchkey.subjects.customers.usecases.identities import log_in
from latchkey.subjects.experiments.usecases import Enrolled, count_enrolled
from latchkey.subjects.test_clocks import usecases as test_clocks
from tests.engine.fixtures import NOON, Core

PRODUCTS = ("pro_monthly", "pro_yearly", "pro_lifetime", "team_monthly", "coins_100")


async def everybody(core: Core) -> dict[str, set[str]]:
    """The active entitlements of each customer at the customer's own time, by the current catalog."""
    async with core.database.acquire() as connection:
        version = await connection.fetchval("select catalog_version from projects where id = $1", core.project_id)
        catalog = await Catalogs().at(connection, core.project_id, version)
        clocks = {row["id"]: row["now_ms"] for row in await connection.fetch("select id, now_ms from test_clocks")}
        states = await connection.fetch("select state from customers where project_id = $1", core.project_id)
    found = [decode(row["state"]) for row in states]
    return {one.app_user_id: set(active(one, catalog, clocks.get(one.test_clock_id or "", core.time))) for one in found}


async def a_crowd(core: Core) -> None:
    """Customers of all kinds: paid, on trial, in grace, refunded, expired, changed, granted, merged, on another
    clock."""
    lots = random.Random(45)
    await test_clocks.create_clock(core.database, core.project_id, "far", "Far", NOON, NOON)
    for number in range(40):
        who = f"customer {number}"
        if number % 8 == 0:
            await test_clocks.create_customer(core.changes, core.project_id, who, "far")
        for product in lots.sample(PRODUCTS, lots.choice((1, 1, 2, 3))):
            await core.act("purchase", who, product, trial=lots.random() < 0.2 and product == "pro_monthly")
            doing: ActionName | None = lots.choice(("cancel", "refund", "fail_billing", "expire", "renew", None, None))
            if doing is not None:
                try:
                    await core.act(
                        doing, who, product, grace_days=lots.choice((0, 6)) if doing == "fail_billing" else 0
                    )
                except Refusal:
                    continue  # coins cannot be renewed
        if number % 5 == 0:
            await grant(core.changes, core.project_id, who, lots.choice(("pro", "team")))
    await log_in(core.changes, core.project_id, "customer 1", "customer 2")
    await core.wait(10 * DAY)
    await test_clocks.advance(core.changes, core.project_id, "far", to=NOON + 5 * DAY)


CHANGES = (
    {"+": [("coins_100", "pro")]},
    {"-": [("pro_monthly", "pro")]},
    {"-": [("pro_yearly", "pro"), ("coins_100", "pro")], "+": [("pro_yearly", "extra"), ("pro_monthly", "extra")]},
    {"-": [("team_monthly", "team"), ("team_monthly", "pro")]},
    {"+": [("pro_monthly", "team"), ("pro_yearly", "team"), ("coins_100", "team")]},
    {"-": [("pro_lifetime", "pro")], "+": [("pro_monthly", "pro")]},
)


async def test_the_preview_says_of_every_entitlement_how_many_really_gain_and_lose_it(core: Core) -> None:
    await a_crowd(core)
    await create_entitlement(core.database, core.project_id, "extra", "Extra", now=core.time)
    # No longer on sale, but customers hold it: it still counts.
    await delete_product(core.database, core.project_id, "pro_lifetime", core.time)
    concerned = 0
    for change in CHANGES:
        attached, detached = ({Grant(*cell) for cell in change.get(sign, ())} for sign in "+-")
        wanted = Remapping(frozenset(attached), frozenset(detached))
        version = (await load_grid(core.database, core.project_id)).version
        before = await everybody(core)
        preview = await preview_mapping(core.database, Catalogs(), core.project_id, wanted, version, core.time)
        await save_mapping(core.database, core.project_id, wanted, version, core.time)
        after = await everybody(core)
        gains = Counter(one for who in before for one in after[who] - before[who])
        losses = Counter(one for who in before for one in before[who] - after[who])
        assert (preview.gains, preview.losses) == (gains, losses), change
        assert (preview.place.done, preview.place.passed) == (True, len(before))
        concerned += gains.total() + losses.total()
    assert concerned > 50, "the changes concern hardly anybody, so the comparison says little"


async def test_only_what_is_there_can_be_mapped_and_all_of_it_or_nothing(core: Core) -> None:
    await delete_product(core.database, core.project_id, "pro_yearly", core.time)
    grid = await load_grid(core.database, core.project_id)
    good = Grant("coins_100", "pro")
    for bad in (Grant("coins_100", "nothing"), Grant("nothing", "pro"), Grant("pro_yearly", "team")):
        with pytest.raises(NotFound):
            await save_mapping(
                core.database, core.project_id, Remapping(frozenset({good, bad})), grid.version, core.time
            )
    now = await load_grid(core.database, core.project_id)
    assert (now.version, now.grants) == (grid.version, grid.grants)
    # A deleted product can be detached, and then it is no longer in the grid.
    await save_mapping(
        core.database,
        core.project_id,
        Remapping(detached=frozenset({Grant("pro_yearly", "pro")})),
        now.version,
        core.time,
    )
    assert "pro_yearly" not in {one.id for one in (await load_grid(core.database, core.project_id)).products}


async def test_nobody_of_another_project_is_counted(core: Core) -> None:
    await core.act("purchase", "alice", "pro_monthly")
    preview = await count_enrolled(core.database, "proj_other", "exp_1", core.time)
    assert preview == Enrolled({}, customer_walk.ScanProgress(done=True))
