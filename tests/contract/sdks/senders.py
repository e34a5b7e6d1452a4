"""Headers and bodies as the three SDKs send them. The values are made up; the names and types are the SDKs' own."""

from typing import Any

from tests.http.client import NOW

ANONYMOUS = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
OLD_DEVICE = "$RCAnonymousID:fedcba9876543210fedcba9876543210"

HEADERS: dict[str, dict[str, str]] = {
    "ios": {
        "content-type": "application/json",
        "x-version": "5.40.0",
        "x-platform": "iOS",
        "x-platform-version": "Version 26.1 (Build 23B85)",
        "x-platform-flavor": "native",
        "x-platform-device": "iPhone17,1",
        "x-client-version": "1.2.3",
        "x-client-build-version": "77",
        "x-client-bundle-id": "com.example.notes",
        "x-preferred-locales": "en_US,de_DE",
        "x-storekit2-enabled": "true",
        "x-storekit-version": "2",
        "x-observer-mode-enabled": "false",
        "x-retry-count": "0",
        "x-is-sandbox": "true",
        "x-is-backgrounded": "false",
        "x-is-debug-build": "true",
        "x-storefront": "USA",
        "x-custom-entitlements-computation": "false",
        "x-nonce": "MTIzNDU2Nzg5MDEy",
        "x-headers-hash": "x-is-sandbox:sha256:00",
        "x-revenuecat-etag": "",
    },
    "android": {
        "content-type": "application/json",
        "x-version": "9.5.0",
        "x-platform": "android",
        "x-platform-version": "36",
        "x-platform-device": "Pixel 9",
        "x-platform-brand": "google",
        "x-platform-flavor": "native",
        "x-preferred-locales": "en_US",
        "x-client-locale": "en-US",
        "x-client-version": "1.2.3",
        "x-client-bundle-id": "com.example.notes",
        "x-observer-mode-enabled": "false",
        "x-storefront": "US",
        "x-is-debug-build": "false",
        "x-kotlin-version": "2.0.21",
        "x-is-backgrounded": "false",
        "x-billing-client-sdk-version": "8.0.0",
        "x-nonce": "MTIzNDU2Nzg5MDEy",
        "x-post-params-hash": "app_user_id,fetch_token:sha256:00",
        "x-revenuecat-etag": "",
        "x-rc-last-refresh-time": str(NOW - 1000),
    },
    "js": {
        "content-type": "application/json",
        "accept": "application/json",
        "origin": "https://shop.example",
        "x-version": "1.53.1",
        "x-platform": "web",
        "x-is-sandbox": "false",
        "x-platform-flavor": "native",
        "x-of-the-app": "1",
    },
}
# Only on receipts of the Android SDK. The price is localised and may have bytes beyond ASCII.
ANDROID_RECEIPT_HEADERS = {"price_string": "9,99 \xa4", "marketplace": "US"}

ATTRIBUTES: dict[str, Any] = {
    "$email": {"value": "ada@example.com", "updated_at_ms": NOW - 1},
    "$displayName": {"value": "", "updated_at_ms": NOW - 1},
    "level": {"value": None, "updated_at_ms": NOW - 1},
}


def ios_receipt(app_user_id: str, token: str, product_id: str) -> dict[str, Any]:
    return {
        "payload_version": 1,
        "app_user_id": app_user_id,
        "is_restore": False,
        "observer_mode": False,
        "initiation_source": "purchase",
        "sdk_originated": True,
        "fetch_token": token,
        "transaction_id": token,
        "purchase_completed_by": "revenuecat",
        "metadata": {"screen": "home"},
        "product_id": product_id,
        "price": "9.99",
        "currency": None,
        "store_country": None,
        "payment_mode": 2,
        "introductory_price": "0",
        "normal_duration": "P1M",
        "trial_duration": "P1W",
        "subscription_group_id": "1",
        "offers": [{"offer_identifier": "half", "price": "4.99", "payment_mode": 0}],
        "presented_offering_identifier": "default",
        "presented_placement_identifier": "home",
        "applied_targeting_rule": {"revision": 1, "rule_id": "x"},
        "paywall": {"session_id": "x", "revision": 1, "display_mode": "full_screen", "dark_mode": False},
        "attributes": ATTRIBUTES,
    }


def android_receipt(app_user_id: str, token: str, product_id: str) -> dict[str, Any]:
    return {
        "fetch_token": token,
        "product_ids": [product_id],
        "platform_product_ids": [{"product_id": product_id, "base_plan_id": "p1m", "offer_id": None}],
        "app_user_id": app_user_id,
        "is_restore": False,
        "observer_mode": False,
        "purchase_completed_by": "revenuecat",
        "price": 1299000.0,
        "currency": "VND",
        "normal_duration": "P1M",
        "pricing_phases": [
            {
                "billingPeriod": "P1M",
                "billingCycleCount": 0,
                "recurrenceMode": 1,
                "formattedPrice": "1.299.000 \u20ab",
                "priceAmountMicros": 1299000000000,
                "priceCurrencyCode": "VND",
            }
        ],
        "proration_mode": "IMMEDIATE_WITH_TIME_PRORATION",
        "initiation_source": "purchase",
        "sdk_originated": True,
        "payload_version": 1,
        "presented_offering_identifier": "default",
        "attributes": ATTRIBUTES,
    }


def js_receipt(app_user_id: str, token: str, product_id: str) -> dict[str, Any]:
    return {
        "fetch_token": token,
        "product_id": product_id,
        "currency": "USD",
        "app_user_id": app_user_id,
        "presented_offering_identifier": "default",
        "presented_placement_identifier": None,
        "applied_targeting_rule": None,
        "initiation_source": "purchase",
    }


RECEIPTS = {"ios": ios_receipt, "android": android_receipt, "js": js_receipt}

# As purchases-js 1.63.1 sends it to `checkout/start`.
CHECKOUT = {
    "app_user_id": "shopper",
    "product_id": "team_monthly",
    "email": "ada@example.com",
    "price_id": "price_team_monthly",
    "presented_offering_identifier": "default",
    "trace_id": "0b1c2d3e-0000-4000-8000-000000000000",
    "metadata": {"utm_source": "x"},
    "applied_targeting_rule": {"rule_id": "r", "revision": 1},
    "presented_placement_identifier": "home",
    "paywall": {"paywall_id": "p", "paywall_session_id": "s"},
    "locale": "en",
    "attribution_metadata": {},
    "appearance_override": {"color_accent": "#000000"},
    "url_parameters": {"a": "b"},
}
