"""POST /v1/receipts with the key of a real store's app. Latchkey cannot ask these stores yet, and a phone drops a
purchase for good on any 4xx: so everything but a token of the test store, and a key that is no good, is 503."""

from typing import Any

import pytest
from msgspec import json

from latchkey.domain.stores.store import AppStore
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.projects import usecases as projects
from tests.http.client import NOW, Client, Reply, Shop
from tests.http.doings import app_key, count_rows, show_receipt
from tests.http.test_receipt_routes import framework

STORES: list[AppStore] = [store for store in projects.PUBLIC_PREFIXES if store != "test_store"]
JWS = "eyJhbGciOiJFUzI1NiIsIng1YyI6W119.eyJ0cmFuc2FjdGlvbklkIjoiMSJ9.c2lnbmF0dXJl"
GOOD = {"app_user_id": "ada", "fetch_token": JWS, "product_id": "pro_monthly", "price": "9.99", "currency": None}

# The journal keeps a receipt that cannot be checked yet.
BESIDE = ("rate_windows", "audit_entries", "store_notifications")

BODIES: dict[str, bytes] = {
    "a signed transaction": json.encode(GOOD),
    "a StoreKit 1 receipt": json.encode({**GOOD, "fetch_token": "MIIT" * 50_000}),
    "a Play token": json.encode({"app_user_id": "ada", "fetch_token": "abc.AO-J1Oz", "product_ids": ["a:b"]}),
    "no token, as on a restore": json.encode({"app_user_id": "ada", "app_transaction": JWS}),
    "no product": json.encode({"app_user_id": "ada", "fetch_token": JWS}),
    "no user": json.encode({"fetch_token": JWS}),
    "a user that cannot be": json.encode({**GOOD, "app_user_id": "null"}),
    "a number for a token": json.encode({**GOOD, "fetch_token": 7}),
    "an attribute that cannot be": json.encode(
        {**GOOD, "attributes": {"a" * 41: {"value": "x", "updated_at_ms": NOW}}}
    ),
    "attributes of another shape": json.encode({**GOOD, "attributes": []}),
    "an array": b"[]",
    "nothing": b"",
    "broken JSON": b'{"app_user_id": "ada", "fetch_tok',
    "bad UTF-8": b'{"app_user_id": "\xff"}',
    "a NUL": b'{"app_user_id": "a\\u0000"}',
    "too deep": b'{"a":' * 100 + b"1" + b"}" * 100,
    "more than a mebibyte": json.encode({**GOOD, "fetch_token": "x" * (1024 * 1024)}),
}


@pytest.fixture(params=["in front", "framework"])
def client(request: pytest.FixtureRequest, steady_shop: Shop) -> Client:
    return steady_shop.client if request.param == "in front" else framework(steady_shop)


@pytest.fixture(scope="module")
async def appl(steady_shop: Shop) -> str:
    app = await projects.create_app(steady_shop.database, steady_shop.project_id, "iOS", "app_store", NOW)
    issued = await keys.create_public_key(
        steady_shop.database, steady_shop.project_id, app.id, "iOS", NOW, rate_limit=1_000_000
    )
    return issued.plaintext


def later(reply: Reply) -> None:
    """The documented V1 body of a fault that is not the phone's: it keeps the purchase."""
    assert (reply.status, reply.json()["code"]) == (503, 7101), reply
    assert set(reply.json()) == {"code", "message"}
    assert reply.headers["x-request-id"] in reply.json()["message"]
    assert int(reply.headers["retry-after"]) > 0


@pytest.mark.parametrize("what", BODIES)
async def test_whatever_may_be_a_real_purchase_is_503(steady_shop: Shop, client: Client, appl: str, what: str) -> None:
    before = await count_rows(steady_shop, apart_from=BESIDE)
    later(await client.request("POST", "/v1/receipts", body=BODIES[what], key=appl))
    assert await count_rows(steady_shop, apart_from=BESIDE) == before


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
async def test_another_kind_of_body_is_503(client: Client, appl: str, kind: str | None) -> None:
    body = BODIES["a signed transaction"]
    later(await client.request("POST", "/v1/receipts", body=body, key=appl, content_type=kind))


@pytest.mark.parametrize(
    "headers", [{"x-platform": "symbian"}, {"X-Platform": "ios", "x-platform": "x"}, {"content-length": "99999999"}]
)
async def test_a_header_that_makes_no_sense_is_503(client: Client, appl: str, headers: dict[str, str]) -> None:
    body = BODIES["a signed transaction"]
    later(await client.request("POST", "/v1/receipts", body=body, key=appl, headers=headers))


@pytest.mark.parametrize("store", STORES)
async def test_it_is_so_in_every_real_store(steady_shop: Shop, store: AppStore) -> None:
    key = await app_key(steady_shop, store)
    later(await show_receipt(steady_shop, "ada", JWS, key=key))
    reply = await show_receipt(steady_shop, "ada", "test_1_forged", "pro_lifetime", key=key)
    assert (reply.status, reply.json()["code"]) == (400, 7103)
    assert "test_..." in reply.json()["message"]


async def test_a_key_that_has_used_up_its_minute_keeps_the_purchase_too(steady_shop: Shop) -> None:
    app = await projects.create_app(steady_shop.database, steady_shop.project_id, "busy", "play_store", NOW)
    issued = await keys.create_public_key(
        steady_shop.database, steady_shop.project_id, app.id, "busy", NOW, rate_limit=1
    )
    for _ in range(3):
        later(await show_receipt(steady_shop, "ada", "abc.AO-J1Oz", key=issued.plaintext))


@pytest.mark.parametrize("headers", [{}, {"x-is-sandbox": "false"}, {"x-is-sandbox": "true", "x-platform": "ios"}])
@pytest.mark.parametrize("token", ["test_1_forged", "test_1800000000123_4f0c", "test_", "test_x"])
async def test_nobody_gives_themselves_a_subscription_with_a_real_stores_key(
    steady_shop: Shop, client: Client, appl: str, token: str, headers: dict[str, str]
) -> None:
    before = await count_rows(steady_shop)
    body = {"app_user_id": "thief", "fetch_token": token, "product_id": "pro_lifetime", "price": 0.01}
    reply = await client.post("/v1/receipts", body, key=appl, headers=headers)
    assert (reply.status, reply.json()["code"]) == (400, 7103)
    assert await count_rows(steady_shop) == before


@pytest.mark.parametrize("nothing", [{}, {"fetch_token": None}, {"fetch_token": ""}, {"fetch_token": " \n"}])
async def test_without_a_receipt_every_key_is_told_so_and_nothing_is_kept(
    steady_shop: Shop, appl: str, nothing: dict[str, Any]
) -> None:
    before = await count_rows(steady_shop)
    for key in (appl, steady_shop.public, steady_shop.secret):
        reply = await steady_shop.client.post("/v1/receipts", {"app_user_id": "ada", **nothing}, key=key)
        assert (reply.status, reply.json()["code"]) == (400, 7103)
        assert "There is no receipt in this request" in reply.json()["message"]
    assert await count_rows(steady_shop) == before


async def test_nor_takes_over_what_somebody_bought_in_the_test_store(steady_shop: Shop, appl: str) -> None:
    assert (await show_receipt(steady_shop, "owner", "test_1_owned")).status == 200
    reply = await show_receipt(steady_shop, "thief", "test_1_owned", key=appl, is_restore=True)
    assert (reply.status, reply.json()["code"]) == (400, 7103)
    assert "pro" in (await steady_shop.v1("owner")).json()["subscriber"]["entitlements"]
    assert (await steady_shop.v2("thief")).status == 404


async def test_a_secret_key_belongs_to_no_store(steady_shop: Shop, client: Client) -> None:
    """A server shows receipts with its app's key. It reads what is wrong, so what is certainly wrong is 400."""
    later(await client.post("/v1/receipts", GOOD))
    reply = await client.post("/v1/receipts", {**GOOD, "fetch_token": "test_1_forged"})
    assert (reply.status, reply.json()["code"]) == (400, 7103)
    assert (await client.post("/v1/receipts", {**GOOD, "app_user_id": "null"})).status == 400


@pytest.mark.parametrize("what", ["a signed transaction", "broken JSON"])
async def test_a_key_that_is_unknown_is_still_401_or_400(client: Client, what: str) -> None:
    reply = await client.request("POST", "/v1/receipts", body=BODIES[what], key="appl_nobody")
    assert reply.status in (400, 401)


@pytest.mark.parametrize("how", ["revoked", "app deleted", "revoked, then app deleted"])
@pytest.mark.parametrize("what", ["a signed transaction", "broken JSON"])
async def test_a_key_that_installed_apps_still_have_keeps_the_purchase(
    steady_shop: Shop, client: Client, what: str, how: str
) -> None:
    """The phone of somebody who has paid must not drop the purchase because an operator has tidied up."""
    app = await projects.create_app(steady_shop.database, steady_shop.project_id, "iOS", "app_store", NOW)
    issued = await keys.create_public_key(steady_shop.database, steady_shop.project_id, app.id, "iOS", NOW)
    if "revoked" in how:
        await keys.revoke_key(steady_shop.database, steady_shop.project_id, issued.key.id, NOW)
    if "deleted" in how:
        await projects.delete_app(steady_shop.database, steady_shop.project_id, app.id)
    before = await count_rows(steady_shop)
    reply = await client.request("POST", "/v1/receipts", body=BODIES[what], key=issued.plaintext)
    later(reply)
    assert "was revoked, or its app was deleted" in reply.json()["message"]
    assert await count_rows(steady_shop) == before, "whatever such a key sends is not stored"
    # It opens nothing else.
    assert (await client.get("/v1/subscribers/ada", key=issued.plaintext)).status == 401


async def test_former_keys_that_no_phone_has_stay_401(steady_shop: Shop, client: Client) -> None:
    """Secret keys are no app's, and purchases of the test store cost nothing."""
    secret = await keys.create_secret_key(steady_shop.database, steady_shop.project_id, "mine", NOW)
    await keys.revoke_key(steady_shop.database, steady_shop.project_id, secret.key.id, NOW)
    app = await projects.create_app(steady_shop.database, steady_shop.project_id, "test", "test_store", NOW)
    test = await keys.create_public_key(steady_shop.database, steady_shop.project_id, app.id, "test", NOW)
    await projects.delete_app(steady_shop.database, steady_shop.project_id, app.id)
    for key in (secret.plaintext, test.plaintext, "appl_nobody"):
        assert (await client.post("/v1/receipts", GOOD, key=key)).status == 401
