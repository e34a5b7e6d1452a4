"""POST …/customers/{id}/virtual_currencies/transactions and the balances on V1 and V2."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.api.client import NOW, Reply, Shop
from tests.api.doings import count_rows, did, told
from tests.api.management import get, refused

MOST = 2**53 - 1


async def adjust(shop: Shop, who: str, **amounts: Any) -> Reply:
    path = f"/v2/projects/{shop.project_id}/customers/{who}/virtual_currencies/transactions"
    return await shop.client.post(path, {"adjustments": amounts})


async def balance(shop: Shop, who: str) -> int:
    v1 = (await shop.client.get(f"/v1/subscribers/{who}/virtual_currencies")).json()["virtual_currencies"]["COIN"]
    [v2] = (await get(shop, f"customers/{who}/virtual_currencies")).json()["items"]
    assert (v1["balance"], v1["code"], v1["name"], v1["description"]) == (
        v2["balance"],
        v2["currency_code"],
        v2["name"],
        v2["description"],
    )
    found: int = v1["balance"]
    return found


async def test_credits_and_debits_answer_with_the_balances_and_are_told(steady_shop: Shop) -> None:
    await steady_shop.note("ann", plan="x")
    assert await balance(steady_shop, "ann") == 0
    reply = await adjust(steady_shop, "ann", COIN=100)
    assert reply.status == 200
    assert reply.json() == (await get(steady_shop, "customers/ann/virtual_currencies")).json()
    assert (await adjust(steady_shop, "ann", COIN=-30)).json()["items"][0]["balance"] == 70
    assert await balance(steady_shop, "ann") == 70
    first, second = await told(steady_shop, "ann")
    assert first["type"] == second["type"] == "VIRTUAL_CURRENCY_TRANSACTION"
    assert [(one["amount"], one["transaction_type"], one["currency"]) for one in (first, second)] == [
        (100, "credit", "COIN"),
        (30, "debit", "COIN"),
    ]
    assert (first["event_timestamp_ms"], first["entitlements"]) == (NOW, {})


async def test_without_a_key_each_request_counts(steady_shop: Shop) -> None:
    await steady_shop.note("each", plan="x")
    await asyncio.gather(*(adjust(steady_shop, "each", COIN=1) for _ in range(10)))
    assert await balance(steady_shop, "each") == 10


async def test_below_zero_is_422(steady_shop: Shop) -> None:
    await did(steady_shop, "purchase", "poor", "coins_100")
    before = await count_rows(steady_shop)
    refused(await adjust(steady_shop, "poor", COIN=-101), 422, "unprocessable_entity_error", "adjustments")
    assert await count_rows(steady_shop) == before
    assert (await adjust(steady_shop, "poor", COIN=-100)).status == 200
    assert await balance(steady_shop, "poor") == 0


async def test_many_debits_at_once_never_take_more_than_there_is(steady_shop: Shop) -> None:
    await did(steady_shop, "purchase", "run", "coins_100")
    replies = await asyncio.gather(*(adjust(steady_shop, "run", COIN=-30) for _ in range(8)))
    assert sorted(reply.status for reply in replies) == [200] * 3 + [422] * 5
    assert await balance(steady_shop, "run") == 10


@pytest.mark.parametrize(
    ("amounts", "status", "kind"),
    [
        ({}, 400, "parameter_error"),
        ({"COIN": 0}, 400, "parameter_error"),
        ({"COIN": 1.5}, 400, "parameter_error"),
        ({"COIN": "1"}, 400, "parameter_error"),
        ({"COIN": True}, 400, "parameter_error"),
        ({"COIN": MOST + 1}, 400, "parameter_error"),
        ({"COIN": None}, 400, "parameter_error"),
        ({f"C{n}": 1 for n in range(21)}, 400, "parameter_error"),
        ({"GOLD": 1}, 404, "resource_missing"),
        ({"COIN": 1, "GOLD": 1}, 404, "resource_missing"),
    ],
)
async def test_adjustments_that_cannot_be_change_nothing(
    steady_shop: Shop, amounts: dict[str, Any], status: int, kind: str
) -> None:
    await steady_shop.note("bad", plan="x")
    before = await count_rows(steady_shop)
    reply = await adjust(steady_shop, "bad", **amounts)
    assert (reply.status, reply.json()["type"]) == (status, kind), reply
    assert await count_rows(steady_shop) == before


async def test_a_balance_stays_a_number_that_every_client_can_read(steady_shop: Shop) -> None:
    await steady_shop.note("rich", plan="x")
    assert (await adjust(steady_shop, "rich", COIN=MOST)).status == 200
    refused(await adjust(steady_shop, "rich", COIN=1), 422, "unprocessable_entity_error", "adjustments")
    assert await balance(steady_shop, "rich") == MOST


async def test_nobody_is_404(steady_shop: Shop) -> None:
    refused(await adjust(steady_shop, "nobody", COIN=1), 404, "resource_missing", "customer_id")
    refused(await get(steady_shop, "customers/nobody/virtual_currencies"), 404, "resource_missing", "customer_id")
    reply = await steady_shop.client.get("/v1/subscribers/nobody/virtual_currencies")
    assert (reply.status, reply.json()["code"]) == (404, 7259)


async def test_a_new_user_of_an_app_has_no_coins_yet(steady_shop: Shop) -> None:
    reply = await steady_shop.client.get("/v1/subscribers/newcomer/virtual_currencies", key=steady_shop.public)
    assert (reply.status, reply.json()["virtual_currencies"]["COIN"]["balance"]) == (200, 0)
    # Reading creates nobody.
    refused(await get(steady_shop, "customers/newcomer"), 404, "resource_missing", "customer_id")


async def test_an_app_may_read_its_users_balance(steady_shop: Shop) -> None:
    await did(steady_shop, "purchase", "player", "coins_100")
    reply = await steady_shop.client.get("/v1/subscribers/player/virtual_currencies", key=steady_shop.public)
    assert reply.json() == {
        "virtual_currencies": {
            "COIN": {"balance": 100, "code": "COIN", "name": "Coins", "description": "Spent inside the demo app"}
        }
    }
