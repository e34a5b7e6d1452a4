"""Which periods and grants the index of purchases knows."""

from __future__ import annotations

from msgspec.structs import replace

from latchkey.domain.customers.intake import take_in
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.subscription import Cause, Subscription
from latchkey.usecases.customers.grants import grant
from latchkey.usecases.customers.identities import log_in
from latchkey.usecases.customers.search import search
from latchkey.usecases.engine.changes import Change
from tests.domain.shop import subscribed
from tests.usecases.conftest import NOON, Shop

INDEX = "select transaction_id, store_id from purchase_transactions where project_id = $1 order by transaction_id"
OWNERS = """
    select o.store, c.app_user_id from purchase_owners o
    join customers c on c.project_id = o.project_id and c.id = o.customer_id
    where o.project_id = $1 order by o.store, c.app_user_id
"""


def apple(renewals: int = 0) -> Subscription:
    """Apple numbers every transaction anew, so the id of a renewal does not say which purchase it renews."""
    first = replace(subscribed(now=NOON).current, id="2000000100")
    later = [
        replace(first, id=f"20000001{number}5", number=number, cause=Cause.RENEWAL, purchased_at=NOON + number * DAY)
        for number in range(1, renewals + 1)
    ]
    return replace(subscribed(now=NOON), store="app_store", id="2000000100", periods=(first, *later))


async def take(shop: Shop, seen: Subscription, user: str = "alice") -> None:
    change = Change(
        project_id=shop.project_id,
        app_user_id=user,
        apply=lambda situation: take_in(situation.customer, seen, situation.now),
        create=True,
        claims=frozenset({(seen.store, seen.id)}),
    )
    await shop.changes.make(change)


async def indexed(shop: Shop) -> list[tuple[str, str]]:
    return [tuple(row) for row in await shop.database.pool.fetch(INDEX, shop.project_id)]


async def owners(shop: Shop) -> list[tuple[str, str]]:
    return [tuple(row) for row in await shop.database.pool.fetch(OWNERS, shop.project_id)]


RENEWALS = [("2000000115", "2000000100"), ("2000000125", "2000000100")]


async def test_a_period_with_an_id_of_its_own_is_indexed_once(shop: Shop) -> None:
    await take(shop, apple())
    assert await indexed(shop) == []
    await take(shop, apple(1))
    await take(shop, apple(2))
    await take(shop, apple(2))
    assert await indexed(shop) == RENEWALS
    found = await search(shop.database, shop.changes.catalogs, shop.project_id, "2000000125", shop.time)
    assert [match.view.customer.app_user_id for match in found.matches] == ["alice"]


async def test_the_index_outlives_a_merge(shop: Shop) -> None:
    anonymous = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
    await take(shop, apple(2), anonymous)
    await grant(shop.changes, shop.project_id, anonymous, "pro")
    await shop.act("purchase", "bob", "pro_monthly")
    await log_in(shop.changes, shop.project_id, anonymous, "bob")
    assert await indexed(shop) == RENEWALS
    assert await owners(shop) == [("app_store", "bob"), ("promotional", "bob"), ("test_store", "bob")]


async def test_a_renewal_in_the_test_store_needs_no_index(shop: Shop) -> None:
    await shop.act("purchase", "alice", "pro_monthly")
    await shop.wait(70 * DAY)
    assert await indexed(shop) == []
