"""A refund takes credited currency from the customer who got it, whoever holds the purchase by then."""

from __future__ import annotations

import itertools

import pytest

from latchkey.usecases.customers.currency import adjust, balances
from latchkey.usecases.customers.erasure import erase
from latchkey.usecases.customers.identities import log_in, transfer
from latchkey.usecases.engine.changes import Change, unchanged
from tests.usecases.conftest import Shop

ANONYMOUS = "$RCAnonymousID:" + "a" * 32


async def coins(shop: Shop, who: str) -> int:
    return next(one.balance for one in await balances(shop.changes, shop.project_id, who) if one.code == "COIN")


async def moves(shop: Shop, who: str) -> list[tuple[str | None, int | None]]:
    return [
        (event.transaction_type, event.amount)  # type: ignore[misc]  # this type of event has both
        for event in await shop.events(who)
        if event.type == "VIRTUAL_CURRENCY_TRANSACTION"
    ]


async def exists(shop: Shop, who: str) -> None:
    await shop.changes.make(Change(project_id=shop.project_id, app_user_id=who, apply=unchanged, create=True))


async def bought_and_moved(shop: Shop, *way: str) -> None:
    await shop.act("purchase", user=way[0], product="coins_100")
    for source, target in itertools.pairwise(way):
        await exists(shop, target)
        await transfer(shop.changes, shop.project_id, source, target)


async def test_a_refund_after_a_transfer_takes_the_coins_from_the_one_who_got_them(shop: Shop) -> None:
    await bought_and_moved(shop, "ada", "bob")
    assert (await coins(shop, "ada"), await coins(shop, "bob")) == (100, 0)
    refunded = await shop.act("refund", user="bob", product="coins_100")
    assert [event.type for event in refunded.events] == ["REFUND"]
    assert (await coins(shop, "ada"), await coins(shop, "bob")) == (0, 0)
    assert await moves(shop, "ada") == [("credit", 100), ("debit", 100)]
    assert await moves(shop, "bob") == []
    await shop.act("reverse_refund", user="bob", product="coins_100")
    assert (await coins(shop, "ada"), await coins(shop, "bob")) == (100, 0)
    assert [event.sequence for event in await shop.events("ada")] == [1, 2, 3, 4]


async def test_the_receivers_own_coins_are_not_touched_and_what_was_spent_is_not_owed(shop: Shop) -> None:
    await shop.act("purchase", user="bob", product="coins_100")
    shop.time += 1
    await shop.act("purchase", user="ada", product="coins_100")
    await adjust(shop.changes, shop.project_id, "ada", {"COIN": -70}, "spent")
    await transfer(shop.changes, shop.project_id, "ada", "bob")
    # The newest purchase of the product, which is the one that came from ada.
    await shop.act("refund", user="bob", product="coins_100")
    assert (await coins(shop, "ada"), await coins(shop, "bob")) == (0, 100)
    assert await moves(shop, "ada") == [("credit", 100), ("debit", 70), ("debit", 30)]
    await shop.act("reverse_refund", user="bob", product="coins_100")
    assert (await coins(shop, "ada"), await coins(shop, "bob")) == (30, 100)


@pytest.mark.parametrize("way", [("ada", "bob", "cleo"), ("ada", "bob", "ada")])
async def test_however_often_it_changed_hands(shop: Shop, way: tuple[str, ...]) -> None:
    await bought_and_moved(shop, *way)
    await shop.act("refund", user=way[-1], product="coins_100")
    assert [await coins(shop, who) for who in sorted(set(way))] == [0] * len(set(way))
    assert await moves(shop, "ada") == [("credit", 100), ("debit", 100)]


async def test_who_was_credited_may_have_merged_with_another_since(shop: Shop) -> None:
    await bought_and_moved(shop, ANONYMOUS, "bob")
    await shop.act("purchase", user="ada", product="coins_100")
    await log_in(shop.changes, shop.project_id, ANONYMOUS, "ada")
    assert await coins(shop, "ada") == 200
    await shop.act("refund", user="bob", product="coins_100")
    assert (await coins(shop, "ada"), await coins(shop, "bob")) == (100, 0)


async def test_from_somebody_who_was_erased_nothing_is_taken_nor_from_who_has_the_name_now(shop: Shop) -> None:
    await bought_and_moved(shop, "ada", "bob")
    await erase(shop.changes, shop.project_id, "ada")
    await shop.act("purchase", user="ada", product="coins_100")
    await adjust(shop.changes, shop.project_id, "bob", {"COIN": 5}, "given")
    await shop.act("refund", user="bob", product="coins_100")
    assert (await coins(shop, "ada"), await coins(shop, "bob")) == (100, 5)


@pytest.mark.parametrize("last", ["ada", "cleo"])
async def test_a_purchase_that_comes_back_after_its_owner_was_erased_credits_nobody_twice(
    shop: Shop, last: str
) -> None:
    """Ada was credited, bob had the purchase and was erased, and a phone shows its receipt again."""
    await shop.show("ada", "test_1_a", "coins_100")
    await exists(shop, "bob")
    await transfer(shop.changes, shop.project_id, "ada", "bob")
    await erase(shop.changes, shop.project_id, "bob")
    for _ in range(2):
        await shop.show(last, "test_1_a", "coins_100")
        assert await coins(shop, "ada") == 100
    assert await shop.told(last) == [
        *["NON_RENEWING_PURCHASE", "VIRTUAL_CURRENCY_TRANSACTION"] * (last == "ada"),
        "TRANSFER",
    ]
    # The refund takes them from ada, who got them.
    await shop.act("refund", user=last, product="coins_100")
    assert (await coins(shop, "ada"), await moves(shop, "ada")) == (0, [("credit", 100), ("debit", 100)])
