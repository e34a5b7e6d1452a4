"""Restoring with StoreKit 2: the phone shows one transaction, and everything that its Apple account has comes back."""

from typing import Any

import pytest
from msgspec import json

from latchkey.domain.instants import HOUR, MINUTE
from tests.http.client import Reply
from tests.stores.world import PROJECT, World

pytestmark = pytest.mark.thorough
DOWN: dict[str, Any] = {"kind": "error", "status": 503}


@pytest.fixture
def account(apple: World) -> tuple[str, str]:
    """Bought with one Apple account, and not known here: a subscription, and what was bought for ever."""
    apple.store.misbehave(drop=1.0)
    apple.store.sell(product_id="coins_100", buyer="family")
    lifetime = apple.store.sell(product_id="pro_lifetime", buyer="family")
    return apple.store.sell(product_id="team_monthly", buyer="family"), lifetime


async def restored(apple: World, purchase: str, app_user_id: str) -> Reply:
    return await apple.show_receipt(purchase, app_user_id, initiation_source="restore", is_restore=True)


def bought(reply: Reply) -> set[str]:
    assert reply.status == 200, reply
    subscriber = reply.json()["subscriber"]
    return {*subscriber["subscriptions"], *subscriber["non_subscriptions"]}


async def setting(apple: World, behavior: str) -> None:
    changed = json.encode({"restore_behavior": behavior})
    assert (await apple.client.request("PATCH", f"/v2/projects/{PROJECT}", body=changed)).status == 200


async def test_a_restore_brings_back_everything_that_lasts(apple: World, account: tuple[str, str]) -> None:
    # Whatever else a phone calls it, it is about the transaction that it shows.
    for source in ("purchase", ["restore"], 7, None):
        assert bought(await apple.show_receipt(account[0], "ada", initiation_source=source)) == {"team_monthly"}
    # Coins are used up: to count them again would give them twice.
    assert bought(await restored(apple, account[0], "ada")) == {"team_monthly", "pro_lifetime"}
    assert bought(await restored(apple, account[1], "ada")) == {"team_monthly", "pro_lifetime"}
    assert await apple.types("ada") == ["INITIAL_PURCHASE", "NON_RENEWING_PURCHASE"]


async def test_what_is_used_up_is_restored_only_if_it_is_shown(apple: World, account: tuple[str, str]) -> None:
    coins = apple.store.sell(product_id="coins_100", buyer="family")
    apple.store.clock.reach(apple.now + 2 * HOUR)
    reply = await restored(apple, coins, "ada")
    assert bought(reply) == {"team_monthly", "pro_lifetime", "coins_100"}
    [counted] = reply.json()["subscriber"]["non_subscriptions"]["coins_100"]
    assert counted["store_transaction_id"] == coins


@pytest.mark.parametrize(("behavior", "status", "owner"), [("transfer", 200, "eve"), ("keep", 422, "ada")])
async def test_a_restore_by_another_user_follows_the_projects_setting(
    apple: World, account: tuple[str, str], behavior: str, status: int, owner: str
) -> None:
    await setting(apple, behavior)
    assert bought(await restored(apple, account[0], "ada")) == {"team_monthly", "pro_lifetime"}
    assert (await restored(apple, account[0], "eve")).status == status
    assert {(await apple.owner(purchase)).app_user_id for purchase in account} == {owner}


async def test_a_purchase_that_stays_with_its_owner_does_not_hold_up_the_rest(
    apple: World, account: tuple[str, str]
) -> None:
    await setting(apple, "keep")
    assert bought(await apple.show_receipt(account[0], "ada")) == {"team_monthly"}
    assert bought(await restored(apple, account[0], "eve")) == {"pro_lifetime"}
    assert (await apple.owner(account[0])).app_user_id == "ada"


@pytest.mark.parametrize("behavior", ["transfer", "keep"])
async def test_in_an_outage_the_shown_purchase_counts_at_once_and_the_rest_follows(
    apple: World, account: tuple[str, str], behavior: str
) -> None:
    await setting(apple, behavior)
    apple.store.misbehave(drop=1.0, api=DOWN)
    assert bought(await restored(apple, account[0], "ada")) == {"team_monthly"}
    await apple.move(apple.now + MINUTE)
    [entry] = await apple.journal()
    assert (entry.status, entry.message) == ("waiting", "Apple answered 503.")
    apple.store.misbehave(drop=1.0)
    await apple.move(apple.now + HOUR, every=10 * MINUTE)
    assert {(await apple.owner(purchase)).app_user_id for purchase in account} == {"ada"}
    assert [entry.status for entry in await apple.journal()] == ["applied"]


async def test_in_an_outage_a_shown_purchase_of_another_user_does_not_end_the_restore(
    apple: World, account: tuple[str, str]
) -> None:
    await setting(apple, "keep")
    assert bought(await apple.show_receipt(account[0], "ada")) == {"team_monthly"}
    apple.store.misbehave(drop=1.0, api=DOWN)
    reply = await restored(apple, account[0], "eve")
    assert (reply.status, reply.json()["code"]) == (503, 7101), "nobody knows yet whether there is more"
    assert await apple.types("eve") == []
    apple.store.misbehave(drop=1.0)
    await apple.move(apple.now + HOUR, every=10 * MINUTE)
    assert [(await apple.owner(purchase)).app_user_id for purchase in account] == ["ada", "eve"]


async def test_a_restore_that_cannot_wait_in_the_journal_is_left_to_the_phone(
    apple: World, account: tuple[str, str]
) -> None:
    front: Any = apple.client.app
    front.services.receipt_limit._unverified_bytes = 0
    apple.store.misbehave(drop=1.0, api=DOWN)
    reply = await restored(apple, account[0], "ada")
    assert (reply.status, reply.json()["code"]) == (503, 7101), reply
    assert await apple.access("ada") == {"pro", "team"}, "what was shown is taken in all the same"
    apple.store.misbehave(drop=1.0)
    assert bought(await restored(apple, account[0], "ada")) == {"team_monthly", "pro_lifetime"}
