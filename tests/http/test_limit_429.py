import asyncio
from typing import Any

from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.demo.usecases.project import APP_ID
from tests.databases import hold_minute
from tests.http.client import NOW, Shop
from tests.http.doings import show_receipt

RATE = "revenuecat-rate-limit-current"


async def test_the_481st_request_in_a_minute_is_429_over_v1_and_v2_together(shop: Shop) -> None:
    await hold_minute(shop.database)
    await shop.note("ada", plan="x")
    replies = await asyncio.gather(
        *(shop.v1("ada") for _ in range(240)),
        *(shop.v2("ada") for _ in range(200)),
        *(shop.v2("ada", "/attributes") for _ in range(40)),
    )
    assert [reply.status for reply in replies] == [200] * 480
    refused = await shop.v1("ada")
    assert refused.status == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert set(refused.json()) == {"code", "message"}
    for more in ("", "/attributes"):
        refused = await shop.v2("ada", more)
        assert refused.status == 429
        error = refused.json()
        assert (error["type"], error["retryable"]) == ("rate_limit_error", True)
        assert 0 < error["backoff_ms"] <= 60_000
        assert int(refused.headers["retry-after"]) == -(-error["backoff_ms"] // 1000)


async def test_what_is_wrong_in_another_way_counts_too_but_strangers_do_not(shop: Shop) -> None:
    issued = await keys.create_secret_key(shop.database, shop.project_id, "small", NOW, rate_limit=3)
    assert (await shop.v2("nobody", key=issued.plaintext)).status == 404
    assert (await shop.v1("null", key=issued.plaintext)).status == 400
    assert (await shop.client.get("/v2/projects/x/customers/y", key=issued.plaintext)).status == 403
    assert (await shop.v1("nobody", key=issued.plaintext)).status == 429
    for _ in range(5):
        assert (await shop.v1("nobody", key="sk_unknown")).status == 401


async def test_every_success_of_v2_says_how_much_of_the_limit_is_used(shop: Shop) -> None:
    await hold_minute(shop.database)
    await shop.note("ada", plan="x")
    issued = await keys.create_secret_key(shop.database, shop.project_id, "small", NOW, rate_limit=5)
    for used, reply in enumerate([await shop.v2("ada", more, key=issued.plaintext) for more in ("", "/attributes")], 1):
        assert reply.headers[f"{RATE}-usage"] == str(used)
        assert reply.headers[f"{RATE}-limit"] == "5"
    assert f"{RATE}-usage" not in (await shop.v2("nobody", key=issued.plaintext)).headers
    assert f"{RATE}-usage" not in (await shop.v1("ada", key=issued.plaintext)).headers
    action = {"action": "purchase", "app_user_id": "ada", "product_id": "coins_100"}
    done = await shop.client.post("/v2/projects/proj_demo/test_store/actions", action, key=issued.plaintext)
    assert (done.status, done.headers[f"{RATE}-usage"]) == (200, "5")
    assert (await shop.v2("ada", key=issued.plaintext)).status == 429


async def test_a_user_is_limited_and_neither_others_nor_the_same_user_elsewhere_pay_for_it(shop: Shop) -> None:
    issued = await keys.create_public_key(shop.database, shop.project_id, APP_ID, "small", NOW, rate_limit=3)
    paths = ("/v1/subscribers/ada", "/v1/subscribers/ada/offerings", "/v1/subscribers/ada/virtual_currencies")
    for path in paths:
        assert (await shop.client.get(path, key=issued.plaintext)).status in {200, 201}
    for path in paths:
        refused = await shop.client.get(path, key=issued.plaintext)
        expected = (503, 7110) if path.endswith("/offerings") else (429, 7638)
        assert (refused.status, refused.json()["code"]) == expected
        assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert (await shop.v1("bob", key=issued.plaintext)).status == 201
    # Whoever knows ada's id and the app's key cannot use up the requests of ada's own phone.
    shop.client.address = "198.51.100.7"
    assert (await shop.v1("ada", key=issued.plaintext)).status == 200
    shop.client.address = "127.0.0.1"
    shop.clock.now += 60_000
    assert (await shop.v1("ada", key=issued.plaintext)).status == 200


async def test_an_address_is_limited_whatever_users_it_names_and_never_on_receipts(shop: Shop) -> None:
    front: Any = shop.client.app
    front.services.phone_limit._per_address = 5
    for number in range(5):
        assert (await shop.v1(f"user {number}", key=shop.public)).status == 201
    assert (await shop.v1("one more", key=shop.public)).status == 429
    new = {"app_user_id": "a", "new_app_user_id": "b"}
    assert (await shop.client.post("/v1/subscribers/identify", new, key=shop.public)).status == 429
    # On V2 a public key is refused anyway; it must not be a way to ask without end.
    assert (await shop.v2("ada", "/attributes", key=shop.public)).status == 429
    for number in range(3):
        assert (await show_receipt(shop, f"buyer {number}", f"test_1_{number}")).status == 200
    # A secret key has its own limit, and another address its own count.
    assert (await shop.v1("user 1")).status == 200
    shop.client.address = "198.51.100.7"
    assert (await shop.v1("one more", key=shop.public)).status == 201


async def test_a_phone_over_its_limit_keeps_attributes_and_offerings_because_it_gets_503(shop: Shop) -> None:
    """The SDKs take any 4xx on attributes for "the server has them", and show kept offerings only after a 5xx."""
    front: Any = shop.client.app
    front.services.phone_limit._per_address = 1
    assert (await shop.v1("ada", key=shop.public)).status == 201
    noted = {"attributes": {"plan": {"value": "x", "updated_at_ms": NOW}}}
    for refused in (
        await shop.client.post("/v1/subscribers/ada/attributes", noted, key=shop.public),
        await shop.client.get("/v1/subscribers/ada/offerings", key=shop.public),
    ):
        assert (refused.status, refused.json()["code"]) == (503, 7110)
        assert 1 <= int(refused.headers["retry-after"]) <= 60
    issued = await keys.create_secret_key(shop.database, shop.project_id, "small", NOW, rate_limit=1)
    assert (await shop.client.get("/v1/subscribers/ada/offerings", key=issued.plaintext)).status == 200
    assert (await shop.client.get("/v1/subscribers/ada/offerings", key=issued.plaintext)).status == 429
    assert (await shop.client.post("/v1/subscribers/ada/attributes", noted, key=issued.plaintext)).status == 429


async def test_addresses_of_one_ipv6_network_count_as_one(shop: Shop) -> None:
    front: Any = shop.client.app
    front.services.phone_limit._per_address = 2
    for last in ("1", "2:3:4"):
        shop.client.address = f"2001:db8:0:7::{last}"
        assert (await shop.v1("ada", key=shop.public)).status in {200, 201}
    shop.client.address = "2001:db8:0:7:ffff::1"
    assert (await shop.v1("ada", key=shop.public)).status == 429
    shop.client.address = "2001:db8:0:8::1"
    assert (await shop.v1("ada", key=shop.public)).status == 200


async def test_a_receipt_with_a_public_key_is_never_refused_for_its_rate(shop: Shop) -> None:
    """All phones of an app share its key, and a phone drops a purchase for good on any 4xx."""
    issued = await keys.create_public_key(shop.database, shop.project_id, APP_ID, "small", NOW, rate_limit=1)
    assert (await shop.v1("ada", key=issued.plaintext)).status == 201
    assert (await shop.v1("ada", key=issued.plaintext)).status == 429
    for number in range(3):
        bought = await show_receipt(shop, "ada", f"test_1_{number}", key=issued.plaintext)
        assert bought.status == 200
        assert set(bought.json()["subscriber"]["entitlements"]) == {"pro"}
    # Through the framework too, where a field is not as the fast path expects it.
    odd = {"app_user_id": "ada", "fetch_token": "test_1_9", "product_id": "pro_monthly", "price": [[]]}
    assert (await shop.client.post("/v1/receipts?again=1", odd, key=issued.plaintext)).status == 200
    assert (await shop.v1("ada", key=issued.plaintext)).status == 429
