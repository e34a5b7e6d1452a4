"""The vendor's web SDK, unmodified from npm, in a real browser against `latchkey up`.

Every test of the test store ends with an empty console: the SDK writes there what it does not like about a server.
"""

import json
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from playwright.async_api import Browser, expect

from tests.cli.running import Up
from tests.web_sdk.shopper import DIALOG, Shopper, act, call, encoded, shopping

DAY = 86_400
DOCS = Path(__file__).parents[2] / "docs" / "sdks.md"


@pytest.fixture
async def shopper(browser: Browser, up: Up, shop: str) -> AsyncIterator[Shopper]:
    async with shopping(browser, up, shop) as shopper:
        yield shopper
        assert shopper.console == []
        ours = {urlsplit(address).netloc for address in (shop, up.connection["base_url"])}
        assert {urlsplit(request.url).netloc for request in shopper.requests} <= ours


def name() -> str:
    return f"shopper_{uuid4().hex[:12]}"


async def test_a_new_visitor_holds_nothing(shopper: Shopper) -> None:
    id = await shopper.configure()
    info = await shopper.run("shop.getCustomerInfo()")
    assert info["originalAppUserId"] == id
    assert id.startswith("$RCAnonymousID:")
    assert (info["entitlements"], info["activeSubscriptions"]) == ({"all": {}, "active": {}}, {})
    assert await shopper.run("shop.isAnonymous()")


async def test_the_lines_in_the_docs_are_all_that_a_page_needs(shopper: Shopper) -> None:
    [lines] = re.findall(r"\*\*Web\*\*\n```js\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    named = {
        '"test_..."': shopper.key,
        '"https://billing.example.com"': shopper.up.connection["base_url"],
        '"ada"': name(),
    }
    for word, value in named.items():
        assert word in lines
        lines = lines.replace(word, json.dumps(value))
    script = re.sub(r"import (.*) from .*;", r"const \1 = sdk;", lines)
    info = await shopper.run(f"async () => {{ {script} return purchases.getCustomerInfo(); }}")
    assert info["originalAppUserId"] == named['"ada"']


async def test_a_paywall_is_an_error_and_not_an_empty_page(browser: Browser, up: Up, shop: str) -> None:
    async with shopping(browser, up, shop) as shopper:
        await shopper.configure()
        refused = await shopper.run("shop.presentPaywall({}).then(() => null, (error) => String(error))")
        assert refused is not None
        assert "paywall" in refused.lower()


async def test_offerings_have_packages_with_products_and_prices(shopper: Shopper) -> None:
    await shopper.configure()
    offerings = await shopper.run(
        """async () => {
          const offerings = await shop.getOfferings();
          const shown = (one) => [one.identifier, one.packageType, one.webBillingProduct.identifier,
            one.webBillingProduct.productType, one.webBillingProduct.currentPrice.formattedPrice,
            one.webBillingProduct.normalPeriodDuration];
          return {
            all: Object.keys(offerings.all).sort(),
            current: [offerings.current.identifier, offerings.current.metadata.highlight],
            monthly: shown(offerings.current.monthly),
            annual: shown(offerings.current.annual),
            lifetime: shown(offerings.current.lifetime),
          };
        }"""
    )
    assert offerings == {
        "all": ["coins", "default", "team"],
        "current": ["default", "$rc_annual"],
        "monthly": ["$rc_monthly", "$rc_monthly", "pro_monthly", "subscription", "$9.99", "P1M"],
        "annual": ["$rc_annual", "$rc_annual", "pro_yearly", "subscription", "$79.99", "P1Y"],
        "lifetime": ["$rc_lifetime", "$rc_lifetime", "pro_lifetime", "non_consumable", "$199.99", None],
    }


async def test_a_placement_has_its_own_offering(shopper: Shopper) -> None:
    await shopper.configure()
    shown = await shopper.run(
        "async (id) => (await shop.getCurrentOfferingForPlacement(id)).identifier", "team_settings"
    )
    assert shown == "team"


async def test_buying_in_the_sdks_own_dialog_gives_access(shopper: Shopper) -> None:
    id = await shopper.configure()
    assert await shopper.buys("$rc_monthly") == {"bought": "pro_monthly"}
    assert await shopper.holds() == ["pro"]
    assert await shopper.run("shop.isEntitledTo('pro')")
    info = await shopper.run("shop.getCustomerInfo()")
    bought = info["subscriptionsByProductIdentifier"]["pro_monthly"]
    assert (bought["store"], bought["isSandbox"], bought["willRenew"]) == ("test_store", True, True)
    # The shop's server sees the same customer.
    assert call(shopper.up, "GET", f"customers/{encoded(id)}")["active_entitlements"]["items"][0]["entitlement_id"]


@pytest.mark.parametrize(
    ("button", "error"), [("Cancel", "UserCancelledError"), ("Test failed purchase", "TestStoreSimulatedPurchaseError")]
)
async def test_who_cancels_or_fails_to_pay_has_bought_nothing(shopper: Shopper, button: str, error: str) -> None:
    await shopper.configure()
    assert (await shopper.buys("$rc_monthly", button))["refused"] == error
    assert await shopper.page.locator(DIALOG).count() == 0
    assert await shopper.holds() == []
    assert shopper.sent("/v1/receipts") == []


async def test_logging_in_takes_the_purchase_along_and_logging_out_leaves_it_behind(shopper: Shopper) -> None:
    await shopper.configure()
    await shopper.buys("$rc_annual")
    user = name()
    first = await shopper.run("(id) => shop.identifyUser(id)", user)
    assert first["wasCreated"]
    assert list(first["customerInfo"]["entitlements"]["active"]) == ["pro"]
    assert await shopper.run("shop.getAppUserId()") == user
    # Log out: a new anonymous customer.
    await shopper.run("shop.changeUser(sdk.Purchases.generateRevenueCatAnonymousAppUserId())")
    assert await shopper.holds() == []
    again = await shopper.run("(id) => shop.identifyUser(id)", user)
    assert (again["wasCreated"], list(again["customerInfo"]["entitlements"]["active"])) == (False, ["pro"])


async def test_attributes_reach_the_server(shopper: Shopper) -> None:
    user = name()
    await shopper.configure(user)
    await shopper.run("shop.setAttributes({ $email: 'kim@example.com', colour: 'green', gone: 'soon' })")
    await shopper.run("shop.setAttributes({ gone: null })")
    attributes = call(shopper.up, "GET", f"/v1/subscribers/{user}")["subscriber"]["subscriber_attributes"]
    assert {key: one["value"] for key, one in attributes.items()} == {"$email": "kim@example.com", "colour": "green"}


async def test_coins_are_bought_and_counted(shopper: Shopper) -> None:
    await shopper.configure()
    # The first thing that the server hears of this visitor.
    assert (await shopper.run("shop.getVirtualCurrencies()"))["all"]["COIN"]["balance"] == 0
    await shopper.buys("coins_100")
    await shopper.run("shop.invalidateVirtualCurrenciesCache()")
    coins = (await shopper.run("shop.getVirtualCurrencies()"))["all"]["COIN"]
    assert (coins["balance"], coins["code"]) == (100, "COIN")


async def test_a_refund_ends_access(shopper: Shopper) -> None:
    user = name()
    await shopper.configure(user)
    for package, product in (("$rc_monthly", "pro_monthly"), ("$rc_lifetime", "pro_lifetime")):
        await shopper.buys(package)
        assert await shopper.holds() == ["pro"]
        act(shopper.up, "refund", user, product)
        assert await shopper.holds() == []


async def test_a_subscription_that_is_cancelled_lasts_until_its_end_and_no_longer(shopper: Shopper) -> None:
    user = name()
    now = int(time.time())
    clock = call(shopper.up, "POST", "test_clocks", {"name": user, "now_ms": now * 1000})["id"]
    call(shopper.up, "POST", "customers", {"id": user, "test_clock_id": clock})
    await shopper.configure(user)
    await shopper.buys("$rc_monthly")
    act(shopper.up, "cancel", user, "pro_monthly")
    assert await shopper.holds() == ["pro"]
    # Time passes for the customer and for the browser.
    later = now + 32 * DAY
    call(shopper.up, "POST", f"test_clocks/{clock}/advance", {"to_ms": later * 1000})
    await shopper.page.clock.set_fixed_time(later)
    assert await shopper.holds() == []
    info = await shopper.run("shop.getCustomerInfo()")
    assert list(info["entitlements"]["all"]) == ["pro"]


async def test_a_grant_gives_access_until_it_is_revoked(shopper: Shopper) -> None:
    user = name()
    await shopper.configure(user)
    grants = f"/v1/subscribers/{user}/entitlements/pro"
    for duration in ("monthly", "lifetime"):
        call(shopper.up, "POST", f"{grants}/promotional", {"duration": duration})
        assert await shopper.holds() == ["pro"]
        call(shopper.up, "POST", f"{grants}/revoke_promotionals", {})
        assert await shopper.holds() == []


@pytest.mark.parametrize(("store", "prefix"), [("rc_billing", "rcb_"), ("stripe", "strp_")])
async def test_a_shop_without_a_payment_provider_says_so(
    browser: Browser, up: Up, shop: str, store: str, prefix: str
) -> None:
    app: dict[str, Any] = call(up, "POST", "apps", {"name": "Web", "store": store})
    key = app["public_api_key"]["key"]
    assert key.startswith(prefix)
    async with shopping(browser, up, shop, key) as shopper:
        # The SDK would load the payment provider's own script.
        await shopper.page.route(lambda url: urlsplit(url).hostname != "127.0.0.1", lambda route: route.abort())
        await shopper.configure()
        assert await shopper.holds() == []
        async with shopper.page.expect_response(lambda reply: reply.url.endswith("/checkout/start")) as starting:
            await shopper.run("buy('$rc_monthly')")
        answer = await starting.value
        said = await answer.json()
        assert (answer.status, said["code"]) == (422, 7000)
        assert "payment provider" in said["message"]
        await expect(shopper.page.get_by_text("error code: 7000")).to_be_visible()
        assert await shopper.holds() == []
