"""The whole story in a real browser, with the Stripe emulator: a link is made, opened and paid, the mail arrives, the
app redeems it, V1 shows the access, and the webhook tells of it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from latchkey.database.sealing import Sealer
from latchkey.emulators.emulator_server import running
from latchkey.emulators.stripe.stripe_emulator import StripeEmulator, StripeKeys
from latchkey.subjects.mail.usecases import Mail, MailFolder
from latchkey.subjects.purchase_intake.usecases import store_connections
from latchkey.subjects.purchase_intake.usecases.notifications import Processor
from tests.dashboard.site import Site, Visitor, visiting
from tests.emulators.shops import stripe_account
from tests.http.doings import subscriber
from tests.http.management import post
from tests.http.receiving import SECRET_KEY
from tests.http.serving import serving
from tests.http.till import services_of
from tests.subjects.purchase_links.buyer import ADA, Buyer, token_in


@pytest.fixture
async def stripe(stripe_keys: StripeKeys) -> AsyncIterator[StripeEmulator]:
    async with stripe_account(stripe_keys) as store:
        yield store


@pytest.fixture
async def sellers_app(site: Site, stripe: StripeEmulator) -> AsyncIterator[str]:
    """An app that is connected to the emulator, which tells of its payments."""
    new = {"name": "Notes", "store": "stripe", "stripe": {"deep_link": "notes://"}}
    app = (await post(site, "apps", new)).json()
    stores = services_of(site).stores
    async with running(stripe) as served, serving(site.client.app) as url:
        found = await store_connections.load(stores, site.project_id, app["id"])
        assert found is not None
        stripe.outbox.url = url + found.notification_path
        saved = await store_connections.save(stores, site.project_id, app["id"], stripe.credentials(served.base_url))
        assert saved.row.check_result == "ok", saved.row
        yield app["id"]


@pytest.fixture
async def phone(browser: Browser, site: Site) -> AsyncIterator[Visitor]:
    """Somebody with a phone, who has no account here."""
    async with visiting(browser, site, None, viewport={"width": 390, "height": 800}) as visitor:
        yield visitor


async def told(site: Site, stripe: StripeEmulator) -> None:
    """What Stripe has to tell arrives, and is processed."""
    await stripe.deliver()
    services = services_of(site)
    processor = Processor(site.database, services.stores, site.changes, site.clock)
    while await processor.process_due():
        pass


async def fits(page: Page) -> None:
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), await page.title()


async def test_from_the_link_to_the_access_in_the_app(
    site: Site, stripe: StripeEmulator, sellers_app: str, owner: Visitor, phone: Visitor, tmp_path: Path
) -> None:
    services: Any = services_of(site)
    mail = Mail(site.database, MailFolder(tmp_path / "mail"), "Shop <x@example.com>", site.url, Sealer(SECRET_KEY))
    services.mail = services.checkouts.mail = mail
    mailbox = Buyer(site, Any, mail)  # type: ignore[arg-type]
    hook = await site.hook()
    # The seller makes a link.
    desk = await owner.open("/purchase-links")
    await desk.get_by_label("Sells").select_option("product:pro_yearly")
    await desk.get_by_label("Through the app").select_option(sellers_app)
    await desk.get_by_role("button", name="Create link").click()
    link = await desk.locator(".snippet code").first.inner_text()
    # A buyer opens it on a phone, and pays.
    page = await phone.context.new_page()
    page.on("console", lambda said: phone.complaints.append(said.text) if said.type == "error" else None)
    await page.goto(link)
    await expect(page.get_by_text("$79.99")).to_be_visible()
    await fits(page)
    await page.get_by_role("link", name="Continue to payment").click()
    await page.get_by_label("Email").fill(ADA)
    assert await services.checkouts.ask_due() == 0
    await page.get_by_role("button", name="Pay", exact=True).click()
    # Back before Stripe has told of anything.
    await expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
    await expect(page.get_by_text("a***@e***.com")).to_be_visible()
    await fits(page)
    assert "sk_test" not in await page.content()
    # Then Stripe tells, and it is the same purchase.
    await told(site, stripe)
    await page.reload()
    # The mail leads to a page that opens the app.
    [token] = await mailbox.mailed_tokens()
    await page.goto(f"{site.url}/buy/redeem/{token}")
    assert token_in(await page.content()) == token
    await fits(page)
    reply = await mailbox.redeem(token, "the-app-user")
    assert reply.status == 200, reply
    info = await subscriber(site, "the-app-user")
    assert info["entitlements"]["pro"]["product_identifier"] == "pro_yearly:price_pro_yearly"
    [bought] = info["subscriptions"].values()
    assert (bought["store"], bought["is_sandbox"]) == ("stripe", True)
    await page.reload()
    await expect(page.get_by_text("It is in use in the app")).to_be_visible()
    assert (await mailbox.redeem(token, "somebody-else")).json()["code"] == 7852
    await told(site, stripe)
    await site.settled(hook["id"], "delivered", count=3)
    types = [arrival.event.type for arrival in site.arrivals if arrival.event]
    assert types.count("INITIAL_PURCHASE") == 1
    assert types[-1] == "SUBSCRIBER_ALIAS"
    services.mail = services.checkouts.mail = None


async def test_a_buyer_who_gives_up_and_one_whose_card_is_declined_have_nothing(
    site: Site, stripe: StripeEmulator, sellers_app: str, phone: Visitor
) -> None:
    link = (await post(site, "purchase_links", {"app_id": sellers_app, "product_id": "pro_monthly"})).json()
    page = await phone.context.new_page()
    await page.goto(f"{site.url}/buy/{link['id']}?app_user_id=grace")
    await page.get_by_role("link", name="Continue to payment").click()
    await page.get_by_role("link", name="Back").click()
    await expect(page.get_by_role("link", name="Continue to payment")).to_be_visible()
    assert page.url.endswith("?app_user_id=grace")
    await page.get_by_role("link", name="Continue to payment").click()
    await page.get_by_label("Email").fill(ADA)
    await page.get_by_role("button", name="Pay with a card that is declined").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await told(site, stripe)
    assert (await site.v2("grace")).status == 404
    await page.get_by_role("link", name="Try again").click()
    await page.get_by_label("Email").fill(ADA)
    # Without a payment, because it begins with a trial.
    await page.get_by_role("button", name="Start trial").click()
    await expect(page.get_by_text("It is in your account")).to_be_visible()
    assert "pro" in (await subscriber(site, "grace"))["entitlements"]
