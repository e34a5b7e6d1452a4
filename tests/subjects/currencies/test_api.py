"""Virtual currencies: the products that credit them, transactions, and balances on V1 and V2."""

import asyncio
from typing import Any

import pytest

from latchkey.engine.storage.catalog.currency_rows import CURRENCIES, Currency
from latchkey.engine.unit_of_work import unheard
from latchkey.subjects.currencies import usecases as currencies
from tests.distributed import WAITING
from tests.http.client import NOW, Reply, Shop
from tests.http.doings import count_rows, did, told
from tests.http.management import delete, get, post, refused, walk
from tests.patience import until

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


async def test_nobody_is_404(steady_shop: Shop) -> None:
    refused(await adjust(steady_shop, "nobody", COIN=1), 404, "resource_missing", "customer_id")
    refused(await get(steady_shop, "customers/nobody/virtual_currencies"), 404, "resource_missing", "customer_id")
    reply = await steady_shop.client.get("/v1/subscribers/nobody/virtual_currencies")
    assert (reply.status, reply.json()["code"]) == (404, 7259)


async def test_currencies_are_listed_by_code(shop: Shop) -> None:
    for code in ("ZZZ", "AAA"):
        await post(shop, "virtual_currencies", {"code": code, "name": code})
    assert [item["code"] for item in await walk(shop, "virtual_currencies?limit=1")] == ["AAA", "COIN", "ZZZ"]


async def test_balances_have_pages_in_one_order_however_the_database_sorts_texts(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = CURRENCIES.page

    async def as_people_sort(*asked: Any) -> list[Currency]:
        """As in most languages: COIN, gem, Life, STAR."""
        return sorted(await page(*asked), key=lambda currency: currency.code.casefold())

    monkeypatch.setattr(CURRENCIES, "page", as_people_sort)
    await shop.note("ann", plan="x")
    for code in ("gem", "Life", "STAR"):
        await post(shop, "virtual_currencies", {"code": code, "name": code})
    codes = [item["currency_code"] for item in await walk(shop, "customers/ann/virtual_currencies?limit=1")]
    assert codes == ["COIN", "Life", "STAR", "gem"]


async def test_a_currency_that_only_a_deleted_product_came_with_can_be_deleted(shop: Shop) -> None:
    await delete(shop, "products/coins_100")
    assert (await delete(shop, "virtual_currencies/COIN")).status == 200
    again = {"id": "coins_100", "kind": "one_time", "price": 1, "currency": "USD"}
    assert (await post(shop, "products", again)).json()["credits"] is None


async def test_a_currency_is_not_deleted_while_its_first_credit_is_written(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.note("ann", plan="x")
    await post(shop, "virtual_currencies", {"code": "GEM", "name": "Gems"})
    checked, go = asyncio.Event(), asyncio.Event()

    async def slow(*about: Any) -> Any:
        checked.set()
        await go.wait()
        return await unheard(*about)

    monkeypatch.setattr(currencies, "unheard", slow)
    crediting = asyncio.create_task(adjust(shop, "ann", GEM=5))
    await checked.wait()
    deleting = asyncio.create_task(delete(shop, "virtual_currencies/GEM"))
    await until(lambda: deleting.done() or shop.database.pool.fetchval(WAITING))
    go.set()
    assert ((await crediting).status, (await deleting).status) == (200, 409)
    held = (await get(shop, "customers/ann/virtual_currencies")).json()["items"]
    assert {one["currency_code"]: one["balance"] for one in held} == {"COIN": 0, "GEM": 5}


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
    kept = await steady_shop.database.pool.fetch(
        "select amount, reference from currency_transactions where reference is not null"
    )
    assert [tuple(row) for row in kept] == [(4, "apology 17")]
