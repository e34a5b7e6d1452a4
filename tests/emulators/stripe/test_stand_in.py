"""The stand-in for Stripe.js in a browser, where pages load it from Stripe's own address."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import requests
from playwright.async_api import Browser, Page, Route, expect
from starlette import routing
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tests.emulators.stripe.conftest import Desk
from tests.emulators.stripe.test_checkout import embedded
from tests.http.serving import serving

PAGE = '<!doctype html><title>Shop</title><div id="place"></div><script src="https://js.stripe.com/dahlia/stripe.js"></script>'


async def shown(_: Request) -> Response:
    return HTMLResponse(PAGE)


@contextlib.asynccontextmanager
async def shop(browser: Browser, desk: Desk) -> AsyncIterator[Page]:
    """A page of another origin than the Stripe emulator. It is on loopback too: browsers let no page of the internet
    ask loopback."""
    script = await asyncio.to_thread(requests.get, f"{desk.url}/dahlia/stripe.js")

    async def answer(route: Route) -> None:
        await route.fulfill(body=script.text, content_type="text/javascript")

    async with serving(Starlette(routes=[routing.Route("/", shown)])) as url:
        context = await browser.new_context()
        page = await context.new_page()
        await page.route("https://js.stripe.com/**", answer)
        await page.goto(f"{url}/")
        try:
            yield page
        finally:
            await context.close()


async def test_the_embedded_page_is_paid(browser: Browser, desk: Desk) -> None:
    async with shop(browser, desk) as page:
        made = await desk.ask(lambda v1: v1.checkout.sessions.create(embedded()))
        start = """async ([key, secret]) => {
            const stripe = Stripe(key, {stripeAccount: "acct_1"});
            const checkout = await stripe.createEmbeddedCheckoutPage({
                fetchClientSecret: async () => secret, onComplete: () => { document.title = "complete"; },
            });
            checkout.mount(document.getElementById("place"));
            return Stripe.version;
        }"""
        assert await page.evaluate(start, [desk.store.keys.publishable_key, made.client_secret]) == "dahlia"
        await expect(page.get_by_role("heading", name="pro_monthly")).to_be_visible()
        await expect(page.get_by_text("$9.99")).to_be_visible()
        await page.get_by_label("Email").fill("ada@example.com")
        await page.get_by_label("Card number").fill("4000 0000 0000 0002")
        await page.get_by_role("button", name="Pay").click()
        await expect(page.get_by_role("alert")).to_have_text("Your card was declined.")
        await page.get_by_label("Card number").fill("4242 4242 4242 4242")
        await page.get_by_role("button", name="Pay").click()
        await expect(page).to_have_title("complete")
        assert [state.active for state in desk.store.expected_states()] == [True]


ELEMENTS = """async ([key, secret]) => {
    const stripe = Stripe(key, {stripeAccount: "acct_1"});
    const elements = stripe.elements({mode: "payment", amount: 999, currency: "usd", paymentMethodTypes: ["card"]});
    const seen = window.seen = [];
    for (const kind of ["linkAuthentication", "payment", "expressCheckout"]) {
        const element = elements.create(kind, {});
        element.mount("#place");
        element.on("ready", () => seen.push(`${kind} ready`));
        element.on("change", (event) => seen.push(`${kind} ${event.complete}`));
    }
    window.pay = async () => {
        const {error} = await elements.submit();
        if (error) return error.code;
        const said = await stripe.confirmPayment({elements, clientSecret: secret, redirect: "if_required"});
        return said.error ? said.error.code : said.paymentIntent.status;
    };
}"""


async def test_elements_confirm_a_payment(browser: Browser, desk: Desk) -> None:
    async with shop(browser, desk) as page:
        body: Any = {"amount": 999, "currency": "usd"}
        made = await desk.ask(lambda v1: v1.payment_intents.create(body))
        await page.evaluate(ELEMENTS, [desk.store.keys.publishable_key, made.client_secret])
        assert await page.evaluate("pay()") == "incomplete_number"
        await page.get_by_label("Email").fill("ada@example.com")
        await page.get_by_label("Card number").fill("4000 0000 0000 0002")
        assert await page.evaluate("pay()") == "card_declined"
        await page.get_by_label("Card number").fill("4242 4242 4242 4242")
        assert await page.evaluate("pay()") == "succeeded"
        seen = await page.evaluate("seen")
        assert {"payment ready", "linkAuthentication ready", "expressCheckout ready"} <= set(seen)
        assert {"payment true", "linkAuthentication true"} <= set(seen)
        said = await desk.ask(lambda v1: v1.payment_intents.retrieve(made.id))
        assert said.status == "succeeded"
