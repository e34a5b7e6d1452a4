"""GET /v1/subscribers/{app_user_id} that succeeds."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import pytest

from latchkey.usecases.access import keys
from latchkey.usecases.customers import grants, identities
from latchkey.usecases.sandbox import clocks as test_clocks
from tests.api.client import DAY, NOW, Shop
from tests.api.doings import count_rows, types_told

# NOW has 123 ms beyond the second: ends are rounded up, beginnings down.
MONTH_LATER = "2027-02-15T08:00:01Z"
BOUGHT = "2027-01-15T08:00:00Z"


async def test_a_one_time_purchase_is_listed_under_its_product_and_never_ends(shop: Shop) -> None:
    await shop.act("purchase", "ada", "pro_lifetime")
    subscriber = (await shop.v1("ada")).json()["subscriber"]
    assert subscriber["subscriptions"] == {}
    [bought] = subscriber["non_subscriptions"]["pro_lifetime"]
    assert set(bought) == {
        "id",
        "is_sandbox",
        "purchase_date",
        "original_purchase_date",
        "store",
        "store_transaction_id",
        "display_name",
        "price",
    }
    assert bought["price"] == {"amount": 199.99, "currency": "USD"}
    assert subscriber["entitlements"]["pro"]["expires_date"] is None
    assert subscriber["entitlements"]["pro"]["product_identifier"] == "pro_lifetime"


async def test_a_granted_entitlement_points_at_a_product_that_is_listed(shop: Shop) -> None:
    await grants.grant(shop.changes, shop.project_id, "ada", "team", duration="monthly", create=True)
    await grants.grant(shop.changes, shop.project_id, "ada", "pro", create=True)
    subscriber = (await shop.v1("ada")).json()["subscriber"]
    listed = subscriber["subscriptions"].keys() | subscriber["non_subscriptions"].keys()
    for entitlement in subscriber["entitlements"].values():
        assert entitlement["product_identifier"] in listed
    assert subscriber["entitlements"]["pro"]["expires_date"] is None
    assert subscriber["entitlements"]["team"]["expires_date"] == MONTH_LATER
    assert subscriber["non_subscriptions"] == {}


async def test_an_expired_entitlement_is_still_shown(shop: Shop) -> None:
    await shop.act("purchase", "ada", "pro_monthly")
    await shop.act("cancel", "ada", "pro_monthly")
    shop.clock.now += 40 * DAY
    reply = (await shop.v1("ada")).json()
    assert reply["request_date_ms"] == NOW + 40 * DAY
    # After the end it is rounded down, so that no reader gains the rest of a second.
    assert reply["subscriber"]["entitlements"]["pro"]["expires_date"] == "2027-02-15T08:00:00Z"
    assert reply["subscriber"]["subscriptions"]["pro_monthly"]["unsubscribe_detected_at"] == BOUGHT


async def test_in_a_grace_period_the_entitlement_ends_with_the_grace_and_the_subscription_with_the_paid_time(
    shop: Shop,
) -> None:
    await shop.act("purchase", "ada", "pro_monthly")
    shop.clock.now += 31 * DAY
    await shop.act("fail_billing", "ada", "pro_monthly", grace_days=6)
    subscriber = (await shop.v1("ada")).json()["subscriber"]
    entitlement, subscription = subscriber["entitlements"]["pro"], subscriber["subscriptions"]["pro_monthly"]
    assert entitlement["expires_date"] == entitlement["grace_period_expires_date"]
    assert entitlement["expires_date"] == subscription["grace_period_expires_date"]
    assert subscription["expires_date"] < entitlement["expires_date"]
    assert subscription["billing_issues_detected_at"] is not None


async def test_a_refund_pulls_the_end_of_entitlement_and_subscription_to_its_moment(shop: Shop) -> None:
    await shop.act("purchase", "ada", "pro_monthly")
    shop.clock.now += DAY
    await shop.act("refund", "ada", "pro_monthly")
    subscriber = (await shop.v1("ada")).json()["subscriber"]
    assert subscriber["entitlements"]["pro"]["expires_date"] == "2027-01-16T08:00:00Z"
    subscription = subscriber["subscriptions"]["pro_monthly"]
    assert (subscription["refunded_at"], subscription["expires_date"]) == ("2027-01-16T08:00:00Z",) * 2
    await shop.act("reverse_refund", "ada", "pro_monthly")
    subscriber = (await shop.v1("ada")).json()["subscriber"]
    assert subscriber["subscriptions"]["pro_monthly"]["expires_date"] == MONTH_LATER


async def test_after_a_product_change_both_products_are_listed_and_only_the_new_one_runs(shop: Shop) -> None:
    await shop.act("purchase", "ada", "pro_monthly")
    shop.clock.now += DAY
    await shop.act("change_product", "ada", "pro_monthly", new_product_id="team_monthly")
    await shop.act("cancel", "ada", "team_monthly")
    subscriptions = (await shop.v1("ada")).json()["subscriber"]["subscriptions"]
    assert set(subscriptions) == {"pro_monthly", "team_monthly"}
    assert subscriptions["pro_monthly"]["unsubscribe_detected_at"] is None
    assert subscriptions["team_monthly"]["unsubscribe_detected_at"] == "2027-01-16T08:00:00Z"


async def test_any_alias_reads_the_same_subscriber_percent_encoded_or_not(shop: Shop) -> None:
    anonymous = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
    await shop.act("purchase", anonymous, "pro_monthly")
    await identities.log_in(shop.changes, shop.project_id, anonymous, "ada@example.com")
    bodies = [
        (await shop.v1(written)).json()
        for written in (
            anonymous,
            quote(anonymous, safe=""),
            "ada@example.com",
            "ada%40example.com",
            "%61da@example.com",
        )
    ]
    assert all(body == bodies[0] for body in bodies)
    assert bodies[0]["subscriber"]["original_app_user_id"] == anonymous


async def test_an_id_is_decoded_exactly_once(shop: Shop) -> None:
    for name in ("100%", "a%2Fb", "ünïcödé 🎟", "a+b", "a b", "a?b#c", "...", "a;b=c,d"):
        await shop.note(name, plan="x")
        reply = await shop.v1(quote(name, safe=""))
        assert reply.status == 200, name
        assert reply.json()["subscriber"]["original_app_user_id"] == name


async def test_a_public_key_sees_no_attributes(shop: Shop) -> None:
    await shop.note("ada", plan="fast")
    assert "subscriber_attributes" not in (await shop.v1("ada", key=shop.public)).json()["subscriber"]
    assert (await shop.v1("ada")).json()["subscriber"]["subscriber_attributes"] != {}


async def test_head_creates_nobody(shop: Shop) -> None:
    before = await count_rows(shop)
    for path in ("", "/offerings", "/virtual_currencies"):
        for key in (shop.public, shop.secret):
            reply = await shop.client.request("HEAD", f"/v1/subscribers/nobody{path}", key=key)
            # To an app, an unknown user has 0 coins.
            known = path == "/offerings" or (path == "/virtual_currencies" and key == shop.public)
            assert reply.status == (200 if known else 404)
            assert reply.body == b""
    assert await count_rows(shop) == before
    assert (await shop.v1("nobody", key=shop.public)).status == 201
    reply = await shop.client.request("HEAD", "/v1/subscribers/nobody", key=shop.public)
    assert (reply.status, reply.body) == (200, b"")


@pytest.mark.parametrize("kind", ["public", "secret", "reader"])
async def test_a_read_of_an_unknown_id_creates_it_once(shop: Shop, kind: str) -> None:
    reader = await keys.create_secret_key(shop.database, shop.project_id, "reader", NOW, scopes=["read"])
    key = {"public": shop.public, "secret": shop.secret, "reader": reader.plaintext}[kind]
    replies = await asyncio.gather(*(shop.v1("newcomer", key=key) for _ in range(5)))
    assert sorted(reply.status for reply in replies) == [200, 200, 200, 200, 201]
    made = replies[0].json()["subscriber"]
    assert all(reply.json()["subscriber"] == made for reply in replies)
    assert (made["original_app_user_id"], made["first_seen"], made["last_seen"]) == ("newcomer", BOUGHT, BOUGHT)
    assert made.get("subscriber_attributes") == (None if kind == "public" else {})
    before = await count_rows(shop)
    shop.clock.now += DAY
    assert (await shop.v1("newcomer", key=key)).status == 200
    assert await count_rows(shop) == before
    assert await types_told(shop, "newcomer") == []


async def test_a_key_that_may_not_read_creates_nobody(shop: Shop) -> None:
    writer = await keys.create_secret_key(shop.database, shop.project_id, "writer", NOW, scopes=["write"])
    before = await count_rows(shop)
    assert (await shop.v1("newcomer", key=writer.plaintext)).status == 403
    assert (await shop.v1("null")).status == 400
    assert await count_rows(shop) == before


async def test_a_head_is_a_get_without_the_body(shop: Shop) -> None:
    await shop.note("ada", plan="fast")
    full = await shop.v1("ada")
    head = await shop.client.request("HEAD", "/v1/subscribers/ada")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == full.headers["content-length"] == str(len(full.body))


async def test_a_change_of_the_catalog_shows_at_the_very_next_read(shop: Shop) -> None:
    await shop.act("purchase", "ada", "pro_monthly")
    assert set((await shop.v1("ada")).json()["subscriber"]["entitlements"]) == {"pro"}
    async with shop.database.transaction() as connection:
        await connection.execute(
            "insert into product_entitlements (project_id, product_id, entitlement_id) values ($1, $2, $3)",
            shop.project_id,
            "pro_monthly",
            "team",
        )
        await connection.execute("update projects set catalog_version = catalog_version + 1")
    assert set((await shop.v1("ada")).json()["subscriber"]["entitlements"]) == {"pro", "team"}


async def test_a_customer_on_a_test_clock_is_read_at_that_clocks_moment(shop: Shop) -> None:
    await test_clocks.create_clock(shop.database, shop.project_id, "clk", "a clock", NOW + 100 * DAY, NOW)
    await test_clocks.create_customer(shop.changes, shop.project_id, "ada", "clk")
    await shop.act("purchase", "ada", "pro_monthly")
    before = (await shop.v1("ada")).json()
    assert before["request_date_ms"] == NOW + 100 * DAY
    await test_clocks.advance(shop.changes, shop.project_id, "clk", to=NOW + 110 * DAY)
    after = (await shop.v1("ada")).json()
    assert after["request_date_ms"] == NOW + 110 * DAY
    assert after["request_date"].endswith("T08:00:00Z")
    assert after["subscriber"]["first_seen"] == before["subscriber"]["first_seen"]


async def test_requests_that_meet_each_get_their_own_answer(shop: Shop) -> None:
    for n in range(20):
        await shop.note(f"user {n}", number=str(n))
    ids = [f"user%20{n}" for n in range(20)]
    replies = await asyncio.gather(
        *(shop.v1(id) for id in ids), shop.v1("nobody"), shop.v1("ada", key="sk_wrong"), shop.v1("null")
    )
    numbers = [reply.json()["subscriber"]["subscriber_attributes"]["number"]["value"] for reply in replies[: len(ids)]]
    assert numbers == [str(n) for n in range(20)]
    assert [reply.status for reply in replies[len(ids) :]] == [201, 401, 400]
