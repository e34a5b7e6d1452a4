"""Products that credit a virtual currency, told from the currency's side, and balances as the vendor's clients ask."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Shop
from tests.api.doings import count_rows
from tests.api.management import get, post, refused

COINS = {
    "object": "virtual_currency.product_grant",
    "product_ids": ["coins_100"],
    "amount": 100,
    "trial_amount": 0,
    "expire_at_cycle_end": False,
}


async def credits(shop: Shop, product_id: str) -> Any:
    return (await get(shop, f"products/{product_id}")).json()["credits"]


async def grants(shop: Shop, code: str) -> Any:
    return (await get(shop, f"virtual_currencies/{code}")).json()["product_grants"]


async def sell(shop: Shop, *ids: str) -> None:
    for id in ids:
        made = await post(shop, "products", {"id": id, "kind": "one_time", "price": 1, "currency": "USD"})
        assert made.status == 201


async def test_the_credits_of_products_are_the_grants_of_their_currency(shop: Shop) -> None:
    assert await grants(shop, "COIN") == [COINS]
    [listed] = (await get(shop, "virtual_currencies")).json()["items"]
    assert listed["product_grants"] == [COINS]


async def test_a_currency_is_created_with_the_products_that_credit_it(shop: Shop) -> None:
    await sell(shop, "gems_5", "gems_5_gift", "gems_9")
    sent = [
        {"product_ids": ["gems_9"], "amount": 9, "trial_amount": 0, "expire_at_cycle_end": False},
        {"product_ids": ["gems_5_gift", "gems_5"], "amount": 5},
    ]
    made = await post(shop, "virtual_currencies", {"code": "GEM", "name": "Gems", "product_grants": sent})
    assert made.status == 201
    assert made.json()["description"] is None
    assert [(one["product_ids"], one["amount"]) for one in made.json()["product_grants"]] == [
        (["gems_5", "gems_5_gift"], 5),
        (["gems_9"], 9),
    ]
    assert await credits(shop, "gems_5") == {"code": "GEM", "amount": 5}
    await shop.act("purchase", "ada", "gems_9")
    held = (await get(shop, "customers/ada/virtual_currencies")).json()["items"]
    assert {one["currency_code"]: one["balance"] for one in held} == {"COIN": 0, "GEM": 9}


async def test_an_update_replaces_all_grants_and_leaves_them_alone_if_it_names_none(shop: Shop) -> None:
    await sell(shop, "coins_7")
    await post(shop, "virtual_currencies/COIN", {"name": "Coins!"})
    assert await grants(shop, "COIN") == [COINS]
    sent = [{"product_ids": ["coins_7"], "amount": 7}]
    reply = await post(shop, "virtual_currencies/COIN", {"product_grants": sent})
    assert [one["product_ids"] for one in reply.json()["product_grants"]] == [["coins_7"]]
    assert (await credits(shop, "coins_100"), await credits(shop, "coins_7")) == (None, {"code": "COIN", "amount": 7})
    reply = await post(shop, "virtual_currencies/COIN", {"product_grants": None})
    assert (reply.status, reply.json()["product_grants"], await credits(shop, "coins_7")) == (200, [], None)


@pytest.mark.parametrize(
    ("grant", "status", "kind"),
    [
        ({"product_ids": ["nothing"], "amount": 1}, 404, "resource_missing"),
        ({"product_ids": ["pro_monthly"], "amount": 1}, 422, "unprocessable_entity_error"),
        ({"product_ids": ["coins_100"], "amount": 1}, 422, "unprocessable_entity_error"),
        ({"product_ids": ["pro_lifetime"], "amount": 1, "trial_amount": 1}, 422, "unprocessable_entity_error"),
        (
            {"product_ids": ["pro_lifetime"], "amount": 1, "expire_at_cycle_end": True},
            422,
            "unprocessable_entity_error",
        ),
        ({"product_ids": ["pro_lifetime", "pro_lifetime"], "amount": 1}, 400, "parameter_error"),
        ({"product_ids": ["pro_lifetime"], "amount": 0}, 400, "parameter_error"),
        ({"product_ids": [], "amount": 1}, 400, "parameter_error"),
    ],
)
async def test_grants_that_cannot_be_are_refused_and_nothing_is_created(
    steady_shop: Shop, grant: dict[str, Any], status: int, kind: str
) -> None:
    before = await count_rows(steady_shop)
    body = {"code": "NEW", "name": "New", "product_grants": [grant]}
    reply = await post(steady_shop, "virtual_currencies", body)
    assert (reply.status, reply.json()["type"]) == (status, kind), reply
    assert reply.json()["param"].startswith("product_grants")
    assert await count_rows(steady_shop) == before
    assert await credits(steady_shop, "pro_lifetime") is None
    assert await credits(steady_shop, "coins_100") == {"code": "COIN", "amount": 100}


async def test_empty_balances_are_left_out_on_request(steady_shop: Shop) -> None:
    await steady_shop.note("eli", plan="x")
    path = "customers/eli/virtual_currencies"
    assert len((await get(steady_shop, path)).json()["items"]) == 1
    assert len((await get(steady_shop, f"{path}?include_empty_balances=true")).json()["items"]) == 1
    assert (await get(steady_shop, f"{path}?include_empty_balances=false")).json()["items"] == []
    refused(
        await get(steady_shop, f"{path}?include_empty_balances=perhaps"),
        400,
        "parameter_error",
        "include_empty_balances",
    )
    spent = await post(steady_shop, f"{path}/transactions?include_empty_balances=false", {"adjustments": {"COIN": 3}})
    assert [one["balance"] for one in spent.json()["items"]] == [3]


async def test_update_balance_moves_the_balance_with_a_reference(steady_shop: Shop) -> None:
    await steady_shop.note("una", plan="x")
    path = f"/v2/projects/{steady_shop.project_id}/customers/una/virtual_currencies"
    body = {"adjustments": {"COIN": 4}, "reference": "apology 17"}
    reply = await steady_shop.client.post(f"{path}/update_balance", body)
    assert (reply.status, reply.json()["items"][0]["balance"]) == (200, 4)
    reply = await steady_shop.client.post(f"{path}/update_balance", {"adjustments": {"COIN": -5}})
    refused(reply, 422, "unprocessable_entity_error", "adjustments")
    async with steady_shop.database.acquire() as connection:
        kept = await connection.fetch("select amount, reference from currency_transactions where reference is not null")
    assert [tuple(row) for row in kept] == [(4, "apology 17")]
