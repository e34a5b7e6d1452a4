"""What a phone claims decides neither environment, nor price, nor ownership: every field and header, on every route
that takes an app's public key."""

from pathlib import Path
from typing import Any

import pytest

from latchkey.domain.instants import MINUTE
from latchkey.subjects.imports.usecases.runs import ImportOrder, run_import
from tests.http.client import DAY, NOW, Shop
from tests.http.doings import TOKEN, act, show_receipt, subscriber, told, types_told
from tests.http.management import holds
from tests.stores.conftest import billing as billing
from tests.stores.world import PROJECT, World
from tests.subjects.imports.vendor_rows import file_of, row

# Everything that the three SDKs send beside the four fields that count, each as an attacker would write it.
FIELDS: dict[str, list[Any]] = {
    "price": [0, 0.01, -5, "0.01", "9.99", None, 10**30, 1_000_001, True, [], {}, "free"],
    "currency": ["EUR", "usd", "EURO", None, 7, ["USD"]],
    "introductory_price": [0, "0.00", None, {}],
    "payment_mode": [2, "2"],
    "trial_duration": ["P10Y"],
    "intro_duration": ["P10Y"],
    "normal_duration": ["P100Y", 5],
    "pricing_phases": [[{"billingPeriod": "P100Y", "priceAmountMicros": 1, "priceCurrencyCode": "EUR"}], "x"],
    "offers": [[{"offer_identifier": "free", "price": "0", "payment_mode": 2}]],
    "proration_mode": ["DEFERRED"],
    "platform_product_ids": [[{"product_id": "pro_lifetime"}]],
    "environment": ["PRODUCTION", "production"],
    "is_sandbox": [False, "false"],
    "sandbox": [False],
    "store": ["app_store", "play_store"],
    "store_country": ["US", None],
    "store_user_id": ["amzn1"],
    "is_restore": [True, False, "yes", None, 7],
    "observer_mode": [True, "true"],
    "initiation_source": ["restore", "purchase", "queue", 7, ["restore"], {}],
    "purchase_completed_by": ["my_app"],
    "sdk_originated": [False],
    "transaction_id": ["test_1_other", 5],
    "original_transaction_id": ["test_1_other"],
    "app_transaction": ["eyJ.e30.x"],
    "test_receipt_identifier": ["x"],
    "ownership_type": ["FAMILY_SHARED"],
    "period_type": ["trial"],
    "trial": [True],
    "purchased_at_ms": [1],
    "expires_at_ms": [NOW * 2],
    "entitlements": [["team"], {"team": {}}],
    "original_app_user_id": ["bob"],
    "new_app_user_id": ["bob"],
    "aliases": [["bob"]],
    "app_id": ["app_other"],
    "project_id": ["proj_other"],
    "test_clock_id": ["clk"],
    "presented_offering_identifier": ["default", 7, {"a": 1}],
    "applied_targeting_rule": [None, {"revision": 1, "rule_id": "x"}],
    "paywall": [{"session_id": "x", "revision": 1}],
    "metadata": [{"environment": "PRODUCTION"}],
    "payload_version": [1, 2],
}
HEADERS: list[dict[str, str]] = [
    {"x-is-sandbox": "false"},
    {"x-is-sandbox": "FALSE"},
    {"x-is-sandbox": "0"},
    {"x-environment": "PRODUCTION"},
    {"x-platform": "ios", "x-is-sandbox": "false", "x-storefront": "USA", "x-country": "US", "cf-ipcountry": "US"},
    {"x-observer-mode-enabled": "true", "x-is-debug-build": "false", "x-installation-method": "app_store"},
    {"price_string": "0,01 \xe2", "marketplace": "US", "x-client-bundle-id": "com.other"},
    {"x-forwarded-for": "10.0.0.1", "x-http-method-override": "DELETE", "x-app-user-id": "bob"},
]


def claims() -> list[Any]:
    fields: list[Any] = [({}, {name: value}) for name, values in FIELDS.items() for value in values]
    return [*fields, *((headers, {}) for headers in HEADERS)]


@pytest.mark.parametrize(("headers", "fields"), claims())
async def test_a_claim_changes_nothing_of_the_purchase(
    steady_shop: Shop, headers: dict[str, str], fields: dict[str, Any]
) -> None:
    who = f"u{abs(hash((str(headers), str(fields))))}"
    token = f"test_1_{who}"
    reply = await show_receipt(steady_shop, who, token, headers=headers, **fields)
    assert reply.status == 200, reply
    shown = (await subscriber(steady_shop, who))["subscriptions"]["pro_monthly"]
    assert (shown["is_sandbox"], shown["store"], shown["ownership_type"]) == (True, "test_store", "PURCHASED")
    assert shown["period_type"] == "normal"
    [event] = await told(steady_shop, who)
    assert event["type"] == "INITIAL_PURCHASE"
    assert (event["environment"], event["store"], event["app_id"]) == ("SANDBOX", "test_store", "app_demo")
    assert (event["price"], event["price_in_purchased_currency"], event["currency"]) == (9.99, 9.99, "USD")
    assert event["expiration_at_ms"] == NOW + 31 * DAY
    assert event["original_transaction_id"] == token
    assert (event["app_user_id"], event["original_app_user_id"], event["aliases"]) == (who, who, [])
    assert await holds(steady_shop, who) == {"pro"}


async def test_a_purchase_that_the_operator_made_cannot_be_claimed_by_a_phone(shop: Shop) -> None:
    """Its id is in every event; with it, whoever has the app's key could move a PRODUCTION purchase to themselves."""
    await act(shop, "purchase", "ada", "pro_lifetime", environment="PRODUCTION")
    [event] = await told(shop)
    token = event["original_transaction_id"]
    for thief, more in (("bob", {}), ("$RCAnonymousID:" + "b" * 32, {"is_restore": True})):
        reply = await show_receipt(shop, thief, token, "pro_lifetime", **more)
        assert (reply.status, reply.json()["code"]) == (422, 7102)
        assert (await shop.v2(thief)).status == 404
    assert await holds(shop, "ada") == {"pro"}
    assert await types_told(shop) == ["NON_RENEWING_PURCHASE"]


async def test_an_app_cannot_read_the_tokens_of_others(shop: Shop) -> None:
    """Whoever has a token can restore its purchase, and everybody with the app's key can read every subscriber."""
    own = await show_receipt(shop, "ada", product_id="pro_lifetime")
    [bought] = own.json()["subscriber"]["non_subscriptions"]["pro_lifetime"]
    assert (bought["id"], bought["store_transaction_id"]) == (TOKEN, TOKEN)
    # A thief may read her, and even show a receipt of his own in her name.
    answers = [
        await shop.v1("ada", key=shop.public),
        await show_receipt(shop, "ada", "test_2_mine", "coins_100"),
        await shop.client.post(
            "/v1/subscribers/identify", {"app_user_id": "ada", "new_app_user_id": "ada"}, key=shop.public
        ),
    ]
    for reply in answers:
        assert reply.status == 200
        assert TOKEN.encode() not in reply.body
        [shown] = reply.json()["subscriber"]["non_subscriptions"]["pro_lifetime"]
        assert shown["id"] == shown["store_transaction_id"]
        refused = await show_receipt(shop, "thief", shown["id"], "pro_lifetime")
        assert (refused.status, refused.json()["code"]) == (400, 7103)
    assert TOKEN.encode() in (await shop.v1("ada")).body
    assert await holds(shop, "ada") == {"pro"}


async def may_restore(billing: World, token: str, who: str) -> object:
    path, body = f"/v1/subscribers/{who}/restore/eligibility", {"fetch_token": token}
    reply = await billing.client.post(path, body, key=billing.public_key)
    assert reply.status == 200, reply
    return reply.json()["is_purchase_allowed_by_restore_behavior"]


async def test_an_id_that_every_reader_sees_takes_no_purchase_from_its_owner(billing: World) -> None:
    purchase = await billing.sell(product_id="pro_monthly", buyer="ada", account_token="ada", also=["team_monthly"])
    for thief in ("eve", "$RCAnonymousID:" + "e" * 32, "cus_eve"):
        reply = await billing.show_receipt(purchase, thief)
        assert (reply.status, reply.json()["code"]) == (422, 7102)
        assert await may_restore(billing, purchase, thief) is False
        assert (await billing.client.get(f"/v2/projects/{PROJECT}/customers/{thief}")).status == 404
    assert await billing.access("ada") == {"pro", "team"}


async def test_an_id_that_was_shown_in_an_outage_takes_no_purchase_from_its_owner(billing: World) -> None:
    purchase = await billing.sell(product_id="pro_monthly", buyer="ada", account_token="ada")
    billing.store.misbehave(api={"kind": "down"})
    assert (await billing.show_receipt(purchase, "eve")).status == 200
    billing.store.behave()
    await billing.move(billing.now + 10 * MINUTE, every=MINUTE)
    assert (await billing.access("ada"), await billing.access("eve")) == ({"pro"}, set())
    assert await billing.types("eve") == ["TEMPORARY_ENTITLEMENT_GRANT", "EXPIRATION"]


async def test_an_id_brings_a_purchase_to_whom_the_app_named_to_the_store(billing: World) -> None:
    billing.store.misbehave(drop=1.0)
    purchase = await billing.sell(product_id="pro_monthly", buyer="ada", account_token="ada")
    assert (await billing.show_receipt(purchase, "eve")).status == 200
    assert await may_restore(billing, purchase, "ada") is True
    assert (await billing.show_receipt(purchase, "ada")).status == 200
    assert (await billing.access("ada"), await billing.access("eve")) == ({"pro"}, set())


@pytest.mark.parametrize("named", [None, "$RCAnonymousID:" + "a" * 32])
async def test_an_id_brings_a_purchase_of_a_buyer_without_a_name_to_the_first_who_shows_it(
    billing: World, named: str | None
) -> None:
    purchase = await billing.sell(product_id="pro_monthly", buyer="ada", account_token=named)
    # The id of Stripe's customer was shown to every reader too.
    customer = next(iter(billing.store.books.customers))
    for who, status in (("ada", 200), ("eve", 422), (customer, 422), ("ada", 200)):
        assert await may_restore(billing, purchase, who) is (status == 200), who
        assert (await billing.show_receipt(purchase, who)).status == status, who


async def test_a_checkout_session_is_shown_to_nobody_else_and_moves_its_purchase(billing: World) -> None:
    purchase = await billing.sell(product_id="pro_monthly", buyer="ada", account_token="ada", checkout=True)
    session = next(iter(billing.store.books.sessions))
    assert await may_restore(billing, session, "bob") is True
    assert (await billing.show_receipt(purchase, "bob", fetch_token=session)).status == 200
    assert await billing.access("bob") == {"pro"}


async def imported_session(billing: World, folder: Path) -> str:
    """A payment at checkout that Stripe never told of, and that an import brought for Ada under its session's id."""
    billing.store.misbehave(drop=1.0)
    session = billing.store.sell(product_id="pro_lifetime", buyer="ada", account_token="ada")
    assert session.startswith("cs_")
    bought = {"store": "stripe", "product_identifier": "pro_lifetime", "store_transaction_id": session}
    once = {"is_auto_renewable": "false", "end_time": "", "effective_end_time": ""}
    file = folder / "export.csv"
    file.write_text(file_of([row(**bought, **once)]))
    order = ImportOrder(project_id=PROJECT, format="revenuecat", files=(file,))
    await run_import(billing.database, order, lambda: billing.now)
    return session


async def test_an_app_cannot_read_the_checkout_sessions_that_an_import_brought(billing: World, tmp_path: Path) -> None:
    session = await imported_session(billing, tmp_path)
    path = "/v1/subscribers/ada"
    reply = await billing.client.get(path, key=billing.public_key)
    assert reply.status == 200
    assert session.encode() not in reply.body
    [shown] = reply.json()["subscriber"]["non_subscriptions"]["pro_lifetime"]
    refused = await billing.show_receipt(session, "eve", fetch_token=shown["id"])
    assert (refused.status, refused.json()["code"]) == (400, 7103)
    assert session.encode() in (await billing.client.get(path)).body


async def test_an_imported_payment_at_checkout_stays_one_purchase_of_its_owner(billing: World, tmp_path: Path) -> None:
    """An import knows it by its session, Stripe by its payment."""
    session = await imported_session(billing, tmp_path)
    # Readers of V2 and events see the session's id.
    refused = await billing.show_receipt(session, "eve", fetch_token=session)
    assert (refused.status, refused.json()["code"]) == (422, 7102)
    assert (await billing.client.get("/v1/subscribers/eve")).json()["subscriber"]["entitlements"] == {}
    assert (await billing.show_receipt(session, "ada", fetch_token=session)).status == 200
    [once_only] = (await billing.client.get("/v1/subscribers/ada")).json()["subscriber"]["non_subscriptions"].values()
    assert [one["store_transaction_id"] for one in once_only] == [session]
    billing.store.behave()
    await billing.act(session, "refund")
    assert await billing.access("ada") == set()
