"""What a phone claims decides neither environment, nor price, nor ownership: every field and header, on every route
that takes an app's public key."""

from typing import Any

import pytest

from tests.http.client import DAY, NOW, Shop
from tests.http.doings import TOKEN, act, show_receipt, subscriber, told, types_told
from tests.http.management import holds

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
