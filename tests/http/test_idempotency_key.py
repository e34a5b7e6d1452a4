"""POST requests of V2 with an Idempotency-Key: carried out once, answered as often as they are sent."""

import asyncio
from typing import Any

import pytest
from msgspec import json

from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.request_log import storage as idempotent_requests
from latchkey.subjects.request_log import usecases as idempotency
from tests.http.client import DAY, NOW, Client, Reply, Shop
from tests.http.doings import count_rows, told
from tests.http.management import get, post, refused, walk
from tests.http.routes import routes_of, settle

ENTITLEMENT = {"id": "gold"}
COINS = {"adjustments": {"COIN": 10}}


async def send(shop: Shop, path: str, body: Any, key: str = "k1", **options: Any) -> Reply:
    return await post(shop, path, body, headers={"idempotency-key": key}, **options)


def is_replayed(reply: Reply) -> bool:
    return reply.headers.get("idempotent-replayed") == "true"


async def credit(shop: Shop, key: str = "k1") -> Reply:
    return await send(shop, "customers/ada/virtual_currencies/transactions", COINS, key)


async def coins(shop: Shop) -> int:
    [held] = (await get(shop, "customers/ada/virtual_currencies")).json()["items"]
    balance: int = held["balance"]
    return balance


async def test_the_same_key_again_gets_the_same_reply_and_changes_nothing(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    first = await credit(shop)
    assert (first.status, is_replayed(first)) == (200, False)
    again = await credit(shop)
    assert (again.status, again.body, is_replayed(again)) == (200, first.body, True)
    assert (await coins(shop), len(await told(shop, "ada"))) == (10, 1)
    assert (await credit(shop, "k2")).status == 200
    assert await coins(shop) == 20


async def test_every_post_of_v2_is_carried_out_once(shop: Shop) -> None:
    names = await settle(shop)
    routes = [route for route in routes_of(shop) if route.method == "POST" and route.version == "v2"]
    assert len(routes) > 50
    await shop.database.pool.execute("update api_keys set rate_limit = 1000000")
    for number, route in enumerate(routes):
        assert any(one["name"] == "Idempotency-Key" for one in route.operation["parameters"]), route.name

        async def sent(route: Any = route, number: int = number) -> Reply:
            body = json.encode(route.body) if route.takes_body else b""
            headers = {"idempotency-key": f"key {number}"}
            return await shop.client.request("POST", route.path(names), body=body, headers=headers)

        first = await sent()
        assert first.status < 500, (route.name, first)
        before = await count_rows(shop)
        again = await sent()
        kept = first.status not in (401, 403, 429)
        assert (again.status, again.body, is_replayed(again)) == (first.status, first.body, kept), route.name
        assert await count_rows(shop) == before or not kept, route.name


async def test_a_refusal_is_repeated_too_although_it_would_be_possible_by_now(shop: Shop) -> None:
    first = await credit(shop)
    refused(first, 404, "resource_missing", "customer_id")
    await shop.note("ada", plan="x")
    assert (await credit(shop)).body == first.body
    assert (await credit(shop, "k2")).status == 200


async def test_another_body_or_path_with_the_same_key_is_422(shop: Shop) -> None:
    assert (await send(shop, "entitlements", ENTITLEMENT)).status == 201
    before = await count_rows(shop)
    for path, body in (
        ("entitlements", {"id": "silver"}),
        ("entitlements?x=1", ENTITLEMENT),
        ("entitlements/gold", {"display_name": "Gold"}),
        ("test_store/actions", {"action": "purchase", "app_user_id": "ada", "product_id": "coins_100"}),
    ):
        refused(await send(shop, path, body), 422, "idempotency_error", "Idempotency-Key")
    assert await count_rows(shop) == before


async def test_keys_are_those_of_one_api_key(shop: Shop) -> None:
    other = await keys.create_secret_key(shop.database, shop.project_id, "other", NOW)
    assert (await send(shop, "entitlements", ENTITLEMENT)).status == 201
    assert (await send(shop, "entitlements", {"id": "silver"}, key="k1")).status == 422
    reply = await shop.client.post(
        "/v2/projects/proj_demo/entitlements",
        {"id": "silver"},
        key=other.plaintext,
        headers={"idempotency-key": "k1"},
    )
    assert reply.status == 201


async def test_after_a_day_the_key_is_new_again_and_old_replies_are_deleted(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    await credit(shop)
    shop.clock.now += DAY - 1
    assert is_replayed(await credit(shop))
    shop.clock.now += 1
    assert not is_replayed(await credit(shop))
    assert await coins(shop) == 20
    await idempotent_requests.prune_idempotent_requests(shop.database, shop.clock.now)
    assert (await count_rows(shop))["idempotent_requests"] == 0


async def test_a_duplicate_meanwhile_is_409_and_may_be_sent_again(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    replies = await asyncio.gather(*(credit(shop) for _ in range(10)))
    assert {reply.status for reply in replies} <= {200, 409}
    assert sum(reply.status == 200 and not is_replayed(reply) for reply in replies) == 1
    for reply in replies:
        if reply.status == 409:
            body = reply.json()
            assert (body["type"], body["retryable"], reply.headers["retry-after"]) == ("idempotency_error", True, "1")
    assert (is_replayed(await credit(shop)), await coins(shop)) == (True, 10)


async def test_after_a_crash_nothing_is_done_twice_and_it_is_said(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies after the change, and before the reply is kept."""
    await shop.note("ada", plan="x")
    with monkeypatch.context() as dying:

        async def died(*_: object) -> None:
            raise OSError("gone")

        dying.setattr(idempotency.Idempotency, "finish", died)
        assert (await credit(shop)).status == 200
    assert (await credit(shop)).json()["retryable"] is True
    shop.clock.now += idempotency.LONGEST
    refused(await credit(shop), 409, "idempotency_error", "Idempotency-Key")
    assert await coins(shop) == 10


async def test_after_a_5xx_the_same_key_is_carried_out_again_and_credits_are_still_given_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.note("ada", plan="x")

    def broken(*_: object, **__: object) -> None:
        raise ValueError("broken after the change")

    with monkeypatch.context() as breaking:
        breaking.setattr("latchkey.subjects.currencies.api.reply", broken)
        assert (await credit(shop)).status == 500
    refused(
        await send(shop, "customers/ada/virtual_currencies/transactions", {"adjustments": {"COIN": 1}}),
        422,
        "idempotency_error",
        "Idempotency-Key",
    )
    assert (await credit(shop)).status == 200
    assert is_replayed(await credit(shop))
    assert (await coins(shop), len(await told(shop, "ada"))) == (10, 1)


async def test_a_new_secret_is_repeated_and_is_in_no_row(shop: Shop) -> None:
    made = await send(shop, "api_keys", {"name": "n", "scopes": ["read"]})
    assert (await send(shop, "api_keys", {"name": "n", "scopes": ["read"]})).body == made.body
    assert len(await walk(shop, "api_keys")) == 2
    rows = await shop.database.pool.fetch("select * from idempotent_requests")
    assert len(rows) == 1
    assert made.json()["key"] not in str(rows)
    assert "k1" not in str(rows)


async def test_a_reply_is_for_the_key_that_made_it_as_long_as_that_works(shop: Shop) -> None:
    other = await keys.create_secret_key(shop.database, shop.project_id, "other", NOW, rate_limit=2)
    client = Client(shop.client.app, other.plaintext)

    async def again() -> Reply:
        headers = {"idempotency-key": "k1"}
        return await client.post("/v2/projects/proj_demo/entitlements", ENTITLEMENT, headers=headers)

    # Each is counted once.
    assert [(await again()).status for _ in range(3)] == [201, 201, 429]
    await keys.revoke_key(shop.database, shop.project_id, other.key.id, NOW)
    assert (await again()).status == 401


async def test_what_is_refused_for_its_key_is_not_kept(shop: Shop) -> None:
    reader = await keys.create_secret_key(shop.database, shop.project_id, "reader", NOW, scopes=["read"])
    for key in (reader.plaintext, "sk_unknown", shop.public, None):
        headers, path = {"idempotency-key": "k1"}, "/v2/projects/proj_demo/entitlements"
        for _ in range(2):
            reply = await shop.client.post(path, ENTITLEMENT, headers=headers, key=key)
            assert (reply.status in (401, 403), is_replayed(reply)) == (True, False)
    # That of the reader: anybody can have the others.
    assert (await count_rows(shop))["idempotent_requests"] == 1


async def test_a_request_that_breaks_off_does_not_use_up_its_key(shop: Shop) -> None:
    async def broken_off() -> Any:
        return {"type": "http.disconnect"}

    async def unheard(_: Any) -> None: ...

    headers = [(b"authorization", f"Bearer {shop.secret}".encode()), (b"idempotency-key", b"k1")]
    path = "/v2/projects/proj_demo/entitlements"
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
    await shop.client.app({**scope, "headers": headers}, broken_off, unheard)
    assert (await send(shop, "entitlements", ENTITLEMENT)).status == 201


@pytest.mark.parametrize("key", ["", " ", "x" * 256, "sch\u00f6n", "a\x01b", "a\tb", "\x7f"])
async def test_a_key_that_is_none_is_400_before_anything_happens(shop: Shop, key: str) -> None:
    before = await count_rows(shop)
    refused(await send(shop, "entitlements", ENTITLEMENT, key), 400, "parameter_error", "Idempotency-Key")
    assert await count_rows(shop) == before


async def test_other_methods_and_v1_take_no_notice_of_it(shop: Shop) -> None:
    headers = {"idempotency-key": "k1"}
    before = (await count_rows(shop))["idempotent_requests"]
    assert (await get(shop, "entitlements", headers=headers)).status == 200
    assert (await shop.v1("ada", headers=headers)).status == 201
    grant = {"duration": "daily"}
    path = "/v1/subscribers/ada/entitlements/pro/promotional"
    for _ in range(2):
        assert (await shop.client.post(path, grant, headers=headers)).status == 201
    assert (await count_rows(shop))["idempotent_requests"] == before
