"""Two customers become one: which event is made and how the sequence goes on. Refunded currency is taken from the
customer who got it."""

import asyncio
import itertools

import pytest

from latchkey.domain.access.entitlements import active
from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.intake import take_in
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.refusal import OwnedByAnother
from latchkey.domain.stores.test_store import actions
from latchkey.engine.changes import Change, Situation, unchanged
from latchkey.subjects.currencies.usecases import adjust, balances, update_currency
from latchkey.subjects.customers.usecases.edits import erase, set_attributes
from latchkey.subjects.customers.usecases.identities import log_in, transfer
from latchkey.subjects.purchase_intake.usecases.app_receipts import Receipt, take_receipt
from latchkey.wire.event import Event
from tests.distributed import WAITING
from tests.engine.fixtures import Core
from tests.patience import until

ANONYMOUS = "$RCAnonymousID:" + "a" * 32


def parts(event: Event) -> list[tuple[str, int]]:
    assert isinstance(event.merged_sequences, list)
    return [(one.app_user_id, one.sequence) for one in event.merged_sequences]


async def test_a_log_in_is_told_for_the_surviving_customer_with_its_access_and_all_its_ids(core: Core) -> None:
    await adjust_in(core, "ada")
    await core.act("purchase", user=ANONYMOUS, product="pro_monthly")
    await log_in(core.changes, core.project_id, ANONYMOUS, "ada")
    told = (await core.events("ada"))[-1]
    assert (told.type, told.app_user_id, told.aliases) == ("SUBSCRIBER_ALIAS", "ada", [ANONYMOUS])
    assert set(told.entitlements) == {"pro"}
    assert told.event_timestamp_ms == core.time
    assert parts(told) == [(ANONYMOUS, 1), ("ada", 1)]
    assert told.sequence == 2


@pytest.mark.parametrize(("anonymous", "named"), [(7, 2), (2, 7), (3, 3), (0, 0), (4, 0), (0, 4)])
async def test_the_sequence_goes_on_from_the_higher_of_the_two(core: Core, anonymous: int, named: int) -> None:
    for who, events in ((ANONYMOUS, anonymous), ("ada", named)):
        await exists(core, who)
        for _ in range(events):
            await adjust_in(core, who)
    await log_in(core.changes, core.project_id, ANONYMOUS, "ada")
    await adjust_in(core, ANONYMOUS)
    alias, after = (await core.events("ada"))[-2:]
    assert parts(alias) == [(ANONYMOUS, anonymous), ("ada", named)]
    assert alias.sequence == max(anonymous, named) + 1
    assert after.sequence == max(anonymous, named) + 2


async def test_what_was_overdue_at_the_log_in_is_told_and_counted_before_it(core: Core) -> None:
    await exists(core, "ada")
    await core.act("purchase", user=ANONYMOUS, product="pro_monthly")
    core.time += 40 * DAY
    await log_in(core.changes, core.project_id, ANONYMOUS, "ada")
    *_, renewal, alias = await core.events("ada")
    assert (renewal.type, renewal.app_user_id, renewal.sequence) == ("RENEWAL", ANONYMOUS, 2)
    assert parts(alias) == [(ANONYMOUS, 2), ("ada", 0)]
    assert alias.sequence == 3


async def test_a_new_id_without_access_and_a_switch_of_user_tell_nothing(core: Core) -> None:
    """No receiver can be wrong about an id that had no access before and has none now."""
    await log_in(core.changes, core.project_id, ANONYMOUS, "ada")
    await core.act("purchase", user="bob", product="pro_monthly")
    await log_in(core.changes, core.project_id, "ada", "bob")
    await log_in(core.changes, core.project_id, "bob", "bob")
    assert await core.told(None) == ["INITIAL_PURCHASE"]


async def test_whatever_a_log_in_changes_in_the_access_of_an_id_is_told(core: Core) -> None:
    """For every id, known before or not: if its access changes, the last event says so."""
    lives = {"none": (), "paid": ("pro_monthly",), "coins": ("coins_100",)}
    number = 0
    for first in (None, *lives):
        for second in (None, *lives):
            number += 1
            ids = f"$RCAnonymousID:{number:032x}", f"user{number}"
            for who, life in zip(ids, (first, second), strict=True):
                if life is not None:
                    await exists(core, who)
                    for product in lives[life]:
                        await core.act("purchase", user=who, product=product)
            before = [life == "paid" for life in (first, second)]
            merged = await log_in(core.changes, core.project_id, *ids)
            after = "pro" in active(merged.customer, merged.catalog, core.time)
            if before != [after, after]:
                last = (await core.events(ids[1]))[-1]
                assert last.type == "SUBSCRIBER_ALIAS", (first, second)
                assert {last.app_user_id, *last.aliases} == set(ids)
                assert ("pro" in last.entitlements) is after


async def exists(core: Core, who: str) -> None:
    await core.changes.make(Change(project_id=core.project_id, app_user_id=who, apply=unchanged, create=True))


async def adjust_in(core: Core, who: str) -> None:
    """Make one event that gives no access."""
    await exists(core, who)
    await adjust(core.changes, core.project_id, who, {"COIN": 1}, f"key {next(core.numbers)}")


async def coins(core: Core, who: str) -> int:
    return next(one.balance for one in await balances(core.changes, core.project_id, who) if one.code == "COIN")


async def moves(core: Core, who: str) -> list[tuple[str | None, int | None]]:
    return [
        (event.transaction_type, event.amount)  # type: ignore[misc]  # this type of event has both
        for event in await core.events(who)
        if event.type == "VIRTUAL_CURRENCY_TRANSACTION"
    ]


async def bought_and_moved(core: Core, *way: str) -> None:
    await core.act("purchase", user=way[0], product="coins_100")
    for source, target in itertools.pairwise(way):
        await exists(core, target)
        await transfer(core.changes, core.project_id, source, target)


@pytest.mark.parametrize("still_credits", [True, False])
async def test_a_refund_after_a_transfer_takes_the_coins_from_the_one_who_got_them(
    core: Core, still_credits: bool
) -> None:
    await bought_and_moved(core, "ada", "bob")
    if not still_credits:
        await update_currency(core.database, core.project_id, "COIN", grants=())
    assert (await coins(core, "ada"), await coins(core, "bob")) == (100, 0)
    refunded = await core.act("refund", user="bob", product="coins_100")
    assert [event.type for event in refunded.events] == ["REFUND"]
    assert (await coins(core, "ada"), await coins(core, "bob")) == (0, 0)
    assert await moves(core, "ada") == [("credit", 100), ("debit", 100)]
    assert await moves(core, "bob") == []
    await core.act("reverse_refund", user="bob", product="coins_100")
    assert (await coins(core, "ada"), await coins(core, "bob")) == (100, 0)
    assert [event.sequence for event in await core.events("ada")] == [1, 2, 3, 4]


async def test_the_receivers_own_coins_are_not_touched_and_what_was_spent_is_not_owed(core: Core) -> None:
    await core.act("purchase", user="bob", product="coins_100")
    core.time += 1
    await core.act("purchase", user="ada", product="coins_100")
    await adjust(core.changes, core.project_id, "ada", {"COIN": -70}, "spent")
    await transfer(core.changes, core.project_id, "ada", "bob")
    # The newest purchase of the product, which is the one that came from ada.
    await core.act("refund", user="bob", product="coins_100")
    assert (await coins(core, "ada"), await coins(core, "bob")) == (0, 100)
    assert await moves(core, "ada") == [("credit", 100), ("debit", 70), ("debit", 30)]
    await core.act("reverse_refund", user="bob", product="coins_100")
    assert (await coins(core, "ada"), await coins(core, "bob")) == (30, 100)


@pytest.mark.parametrize("way", [("ada", "bob", "cleo"), ("ada", "bob", "ada")])
async def test_however_often_it_changed_hands(core: Core, way: tuple[str, ...]) -> None:
    await bought_and_moved(core, *way)
    await core.act("refund", user=way[-1], product="coins_100")
    assert [await coins(core, who) for who in sorted(set(way))] == [0] * len(set(way))
    assert await moves(core, "ada") == [("credit", 100), ("debit", 100)]


async def test_who_was_credited_may_have_merged_with_another_since(core: Core) -> None:
    await bought_and_moved(core, ANONYMOUS, "bob")
    await core.act("purchase", user="ada", product="coins_100")
    await log_in(core.changes, core.project_id, ANONYMOUS, "ada")
    assert await coins(core, "ada") == 200
    await core.act("refund", user="bob", product="coins_100")
    assert (await coins(core, "ada"), await coins(core, "bob")) == (100, 0)


async def test_from_somebody_who_was_erased_nothing_is_taken_nor_from_who_has_the_name_now(core: Core) -> None:
    await bought_and_moved(core, "ada", "bob")
    await erase(core.changes, core.project_id, "ada")
    await core.act("purchase", user="ada", product="coins_100")
    await adjust(core.changes, core.project_id, "bob", {"COIN": 5}, "given")
    await core.act("refund", user="bob", product="coins_100")
    assert (await coins(core, "ada"), await coins(core, "bob")) == (100, 5)


@pytest.mark.parametrize("last", ["ada", "cleo"])
async def test_a_purchase_that_comes_back_after_its_owner_was_erased_credits_nobody_twice(
    core: Core, last: str
) -> None:
    """Ada was credited, bob had the purchase and was erased, and a phone shows its receipt again."""
    await core.show("ada", "test_1_a", "coins_100")
    await exists(core, "bob")
    await transfer(core.changes, core.project_id, "ada", "bob")
    await erase(core.changes, core.project_id, "bob")
    for _ in range(2):
        await core.show(last, "test_1_a", "coins_100")
        assert await coins(core, "ada") == 100
    assert await core.told(last) == [
        *["NON_RENEWING_PURCHASE", "VIRTUAL_CURRENCY_TRANSACTION"] * (last == "ada"),
        "TRANSFER",
    ]
    # The refund takes them from ada, who got them.
    await core.act("refund", user=last, product="coins_100")
    assert (await coins(core, "ada"), await moves(core, "ada")) == (0, [("credit", 100), ("debit", 100)])


RECEIPT = Receipt(
    app_user_id="alice@example.com",
    token="test_1_a",
    product_id="pro_monthly",
    app_id="app_shop",
    store="test_store",
)


async def test_a_purchase_without_an_owner_is_claimed_by_one_of_two_processes(core: Core) -> None:
    await take_receipt(core.changes, core.project_id, RECEIPT)
    await erase(core.changes, core.project_id, RECEIPT.app_user_id)
    await set_attributes(core.changes, core.project_id, "bob", {}, create=True)

    def sold(situation: Situation) -> Customer:
        product = situation.catalog.products["pro_monthly"]
        seen = actions.sell(product, situation.now, id=RECEIPT.token, environment=Environment.SANDBOX)
        return take_in(situation.customer, seen, situation.now)

    claims = frozenset({("test_store", RECEIPT.token)})
    change = Change(project_id=core.project_id, app_user_id="eve", apply=sold, create=True, claims=claims)
    async with core.database.transaction() as other:
        bob = await other.fetchval("select id from customers")
        await other.execute("update purchase_owners set customer_id = $1", bob)
        claiming = asyncio.create_task(core.changes.make(change))
        await until(lambda: core.database.pool.fetchval(WAITING))
    with pytest.raises(OwnedByAnother):
        await claiming


async def test_a_customer_who_is_merged_while_a_transfer_waits_is_not_called_missing(core: Core) -> None:
    await core.act("purchase", user=ANONYMOUS, product="pro_monthly")
    for who in ("ada", "bob"):
        await exists(core, who)
    async with core.database.transaction() as other:
        await other.execute("select from customers where app_user_id = $1 for update", ANONYMOUS)
        merging = asyncio.create_task(log_in(core.changes, core.project_id, ANONYMOUS, "ada"))
        await until(lambda: core.database.pool.fetchval(WAITING))
        moving = asyncio.create_task(transfer(core.changes, core.project_id, ANONYMOUS, "bob"))
        await until(lambda: core.database.pool.fetchval(WAITING.replace("count(*)", "count(*) > 1")))
    await merging
    assert len((await moving).customer.subscriptions) == 1
    assert await core.told("bob") == ["TRANSFER"]
