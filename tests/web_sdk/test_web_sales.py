"""The vendor's web SDK, unmodified from npm, sells in a real browser: Latchkey and a Stripe emulator on loopback.

Stripe's script comes from the Stripe emulator, in place of js.stripe.com. With a key of a Stripe app the SDK embeds
Stripe's own page; with a key of a web billing app it shows its own form.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from playwright.async_api import Browser, Route, expect

from latchkey.database.pool import Database
from latchkey.domain.stores.store import AppStore
from latchkey.emulators.stripe.stripe_emulator import make_stripe_keys
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.projects import usecases as projects
from latchkey.subjects.purchase_intake.usecases import store_connections as credentials
from tests.emulators.shops import stripe_account
from tests.stores.world import PROJECT, World, world
from tests.web_sdk.shopper import Service, Shopper, shopping

KEYS = make_stripe_keys()
GOOD, DECLINED = "4242 4242 4242 4242", "4000 0000 0000 0002"
BUYER = "ada@example.com"


@pytest.fixture
async def stripe(database: Database) -> AsyncIterator[World]:
    async with stripe_account(KEYS) as store, world(database, store) as made:
        yield made


async def key_of(stripe: World, store: AppStore) -> str:
    """The key of an app that sells through the Stripe emulator."""
    if store == "stripe":
        return stripe.public_key
    app = await projects.create_app(stripe.database, PROJECT, "Web", store, stripe.now)
    found = await credentials.load(stripe.connections, PROJECT, app.id)
    assert found is not None
    origin = stripe.store.outbox.url
    assert origin is not None
    stripe.store.outbox.url = f"{_origin(origin)}{found.notification_path}"
    await credentials.save(stripe.connections, PROJECT, app.id, stripe.store.credentials(stripe.served.base_url))
    return (await keys.create_public_key(stripe.database, PROJECT, app.id, "Web", stripe.now)).plaintext


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


@asynccontextmanager
async def visiting(browser: Browser, stripe: World, shop: str, store: AppStore) -> AsyncIterator[Shopper]:
    key = await key_of(stripe, store)
    assert stripe.store.outbox.url is not None
    service = Service({"base_url": _origin(stripe.store.outbox.url), "public_api_key": key})
    script = await asyncio.to_thread(requests.get, f"{stripe.served.base_url}/dahlia/stripe.js")

    async def stand_in(route: Route) -> None:
        await route.fulfill(body=script.text, content_type="text/javascript")

    async with shopping(browser, service, shop, key) as shopper:
        await shopper.page.route("https://js.stripe.com/dahlia/stripe.js", stand_in)
        yield shopper
        asked = {urlsplit(request.url).hostname for request in shopper.requests}
        assert asked == {"127.0.0.1", "js.stripe.com"}


async def finished(shopper: Shopper) -> Any:
    await shopper.page.get_by_role("button", name="Continue").click()
    await shopper.page.wait_for_function("window.outcome !== undefined")
    return await shopper.run("window.outcome")


async def v1(stripe: World, app_user_id: str) -> Any:
    return (await stripe.client.get(f"/v1/subscribers/{app_user_id}")).json()["subscriber"]


@pytest.mark.parametrize("store", ["stripe", "rc_billing"])
async def test_a_subscription_is_bought_on_the_web(browser: Browser, stripe: World, shop: str, store: AppStore) -> None:
    async with visiting(browser, stripe, shop, store) as shopper:
        page = shopper.page
        await shopper.configure("ada")
        assert await shopper.holds() == []
        await shopper.run("buy('$rc_annual')")
        await page.get_by_label("Email").fill(BUYER)
        await page.get_by_label("Card number").fill(DECLINED)
        pay = page.get_by_role("button", name="Pay")
        async with page.expect_response(lambda reply: reply.url.endswith("/confirm")) as paying:
            await pay.click()
        assert (await paying.value).status == 402
        assert await shopper.holds() == []
        await page.get_by_label("Card number").fill(GOOD)
        await pay.click()
        assert await finished(shopper) == {"bought": "pro_yearly"}
        # The SDK has read the customer already, before Stripe has told us anything.
        assert await shopper.holds() == ["pro"]
        before = await stripe.events("ada")
        assert [event["type"] for event in before] == ["INVOICE_ISSUANCE", "INITIAL_PURCHASE"]
        # Stripe's webhook changes nothing more.
        await stripe.settle()
        assert await stripe.events("ada") == before
        told = await stripe.journal()
        assert {entry.source for entry in told} == {"notification", "receipt"}
        assert {entry.status for entry in told} <= {"applied", "ignored"}
        assert await shopper.holds() == ["pro"]
    info = await v1(stripe, "ada")
    [(product, bought)] = info["subscriptions"].items()
    assert (product, bought["store"]) == ("pro_yearly:price_pro_yearly", store)
    assert bought["price"] == {"amount": 79.99, "currency": "USD"}
    # The SDK says which offering the page showed.
    assert before[0]["presented_offering_id"] == "default"


async def test_the_sdk_says_that_the_user_has_it_already(browser: Browser, stripe: World, shop: str) -> None:
    id = stripe.store.sell(product_id="pro_yearly", buyer="ada", account_token="ada")
    await stripe.settle()
    assert await stripe.is_known(id)
    async with visiting(browser, stripe, shop, "stripe") as shopper:
        await shopper.configure("ada")
        assert await shopper.holds() == ["pro"]
        await shopper.page.evaluate("fetch('https://js.stripe.com/dahlia/stripe.js')")
        async with shopper.page.expect_response(lambda reply: reply.url.endswith("/checkout/start")) as starting:
            await shopper.run("buy('$rc_annual')")
        assert (await (await starting.value).json())["code"] == 7772
        await expect(shopper.page.get_by_text("already")).to_be_visible()
