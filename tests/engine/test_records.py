"""An event's id contains the customer's record, so a customer who was erased and created again has new events.

The clock stands still here, so that only the record makes the difference.
"""

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import json

from latchkey.database.pool import Database
from latchkey.domain.access.entitlements import active
from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.identity import LogIn
from latchkey.domain.customers.identity import log_in as kind_of_log_in
from latchkey.domain.purchases.purchase import PurchaseKind
from latchkey.domain.refusal import Refusal
from latchkey.engine.changes import Change, unchanged
from latchkey.engine.storage.state import decode
from latchkey.subjects.currencies.usecases import adjust
from latchkey.subjects.customers.usecases.edits import erase, grant
from latchkey.subjects.customers.usecases.identities import log_in, transfer
from latchkey.subjects.experiments.usecases import enroll_customer
from latchkey.wire.event import Event
from tests.engine.fixtures import NOON, Core, new_project

VARIANTS = b'[{"id": "a", "weight": 1}, {"id": "b", "weight": 1}]'
_numbers = itertools.count()


@pytest.fixture
async def core(database: Database) -> Core:
    return await new_shop(database)


async def new_shop(database: Database) -> Core:
    project = f"proj_{next(_numbers)}"
    await new_project(database, project, NOON)
    await database.pool.execute("insert into experiments values ($1, 'exp', 'Prices', $2, 0)", project, VARIANTS)
    return Core(database, project)


async def exists(core: Core, who: str) -> None:
    await core.changes.make(Change(project_id=core.project_id, app_user_id=who, apply=unchanged, create=True))


async def find(core: Core, who: str) -> Customer | None:
    state = await core.database.pool.fetchval(
        "select c.state from customers c join aliases a on a.project_id = c.project_id and a.customer_id = c.id"
        " where a.project_id = $1 and a.app_user_id = $2",
        core.project_id,
        who,
    )
    return decode(state) if state is not None else None


# Random histories.

NAMED = ("ada", "bob")
ANONYMOUS = tuple(f"$RCAnonymousID:{letter * 32}" for letter in "ab")
EVERYBODY = (*NAMED, *ANONYMOUS)


@dataclass
class World:
    """A few customers who act on each other, and the events that each action must make."""

    shop: Core
    chance: Random
    acts: list[str] = field(default_factory=list)

    async def act(self) -> list[str]:
        """One random action; gives the types of the events that it must make, in any order."""
        who, whom = self.chance.sample(EVERYBODY, 2)
        name = self.chance.choice("ggggeebccttttttrrllxxxx")
        self.acts.append(f"{name} {who} {whom}")
        doing = {
            "g": self.is_granted,
            "e": self.is_enrolled,
            "b": self.buys,
            "c": self.is_credited,
            "t": self.gives_all,
            "r": self.is_refunded,
            "l": self.logs_in,
            "x": self.is_erased,
        }[name]
        return await doing(who, whom)

    async def is_granted(self, who: str, _: str) -> list[str]:
        await grant(self.shop.changes, self.shop.project_id, who, "pro", create=True)
        return ["NON_RENEWING_PURCHASE"]

    async def is_enrolled(self, who: str, _: str) -> list[str]:
        before = await find(self.shop, who)
        await enroll_customer(self.shop.changes, self.shop.project_id, "exp", who)
        return [] if before is not None and before.enrollments else ["EXPERIMENT_ENROLLMENT"]

    async def buys(self, who: str, _: str) -> list[str]:
        await self.shop.act("purchase", user=who, product="coins_100")
        return ["NON_RENEWING_PURCHASE", "VIRTUAL_CURRENCY_TRANSACTION"]

    async def is_credited(self, who: str, _: str) -> list[str]:
        """With one of two keys: the same key a second time does nothing, but it works again after an erasure."""
        await exists(self.shop, who)
        key = self.chance.choice(("welcome", "thanks"))
        amount = await self.shop.database.pool.fetchval(
            "select m.amount from currency_transactions m"
            " join aliases a on a.project_id = m.project_id and a.customer_id = m.customer_id"
            " where a.project_id = $1 and a.app_user_id = $2 and m.idempotency_key = $3",
            self.shop.project_id,
            who,
            key,
        )
        await adjust(self.shop.changes, self.shop.project_id, who, {"COIN": 5}, key)
        return ["VIRTUAL_CURRENCY_TRANSACTION"] if amount is None else []

    async def gives_all(self, who: str, whom: str) -> list[str]:
        try:
            await transfer(self.shop.changes, self.shop.project_id, who, whom)
        except Refusal:
            return []
        return ["TRANSFER"]

    async def is_refunded(self, who: str, _: str) -> list[str]:
        """Refund the coins that were bought last. The credited customer may have some left, have none, or be erased."""
        before = await find(self.shop, who)
        bought = [one for one in before.purchases if one.kind is PurchaseKind.ONE_TIME] if before else []
        if not bought or max(bought, key=lambda one: one.purchased_at).refunded_at is not None:
            return []
        coins = await self.all_coins()
        await self.shop.act("refund", user=who, product="coins_100")
        taken = coins - await self.all_coins()
        assert 0 <= taken <= 100
        return ["REFUND", "VIRTUAL_CURRENCY_TRANSACTION"] if taken else ["REFUND"]

    async def logs_in(self, who: str, whom: str) -> list[str]:
        before, target = await find(self.shop, who), await find(self.shop, whom)
        logged_in = await log_in(self.shop.changes, self.shop.project_id, who, whom)
        if before is not None and target is not None:
            return ["SUBSCRIBER_ALIAS"] if kind_of_log_in(before, target) is LogIn.MERGE else []
        # One of the two ids was unknown. If it joined the other customer, it now has that customer's access.
        survivor = before or target
        joined = {who, whom} <= set(logged_in.customer.aliases)
        holds = survivor is not None and active(survivor, logged_in.catalog, self.shop.time)
        return ["SUBSCRIBER_ALIAS"] if joined and holds else []

    async def is_erased(self, who: str, _: str) -> list[str]:
        if await find(self.shop, who) is not None:
            await erase(self.shop.changes, self.shop.project_id, who)
        return []

    async def all_coins(self) -> int:
        states = await self.shop.database.pool.fetch(
            "select state from customers where project_id = $1", self.shop.project_id
        )
        return sum(decode(row["state"]).balances.get("COIN", 0) for row in states)


@settings(
    max_examples=40, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(seed=st.integers(0, 2**32))
async def test_whatever_happens_is_told_once_and_counted_without_a_gap(database: Database, seed: int) -> None:
    core = await new_shop(database)
    world = World(core, Random(seed))
    told = 0
    for _ in range(world.chance.randrange(20, 60)):
        expected = await world.act()
        rows = await database.pool.fetch(
            "select type from events where project_id = $1 order by position offset $2", core.project_id, told
        )
        assert sorted(row["type"] for row in rows) == sorted(expected), world.acts
        told += len(rows)
    await counted_without_a_gap(core)
    await holds_every_purchase_once(core)


async def counted_without_a_gap(core: Core) -> None:
    """Each record's sequence has no gap; after a merge it goes on from the higher of the two."""
    rows = await core.database.pool.fetch(
        "select id, customer_id, sequence, body from events where project_id = $1 order by position", core.project_id
    )
    assert len({row["id"] for row in rows}) == len(rows)
    last: dict[int, int] = defaultdict(int)
    for row in rows:
        event = json.decode(row["body"], type=Event)
        expected = last[row["customer_id"]]
        if isinstance(event.merged_sequences, list):
            numbers = [one.sequence for one in event.merged_sequences]
            assert numbers[-1] == expected
            expected = max(numbers)
        assert event.sequence == row["sequence"] == expected + 1
        last[row["customer_id"]] = row["sequence"]
    for row in await core.database.pool.fetch("select id, state from customers where project_id = $1", core.project_id):
        assert decode(row["state"]).sequence == last[row["id"]]


async def holds_every_purchase_once(core: Core) -> None:
    states = await core.database.pool.fetch("select state from customers where project_id = $1", core.project_id)
    held = [(one.store, one.id) for row in states for one in decode(row["state"]).purchases]
    assert len(set(held)) == len(held)
