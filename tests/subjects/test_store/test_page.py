"""The page of a store emulator: Google Play, a test clock that follows, and a store that is down.

`tests/process/test_up.py` has the page of the App Store emulator in a real `latchkey up`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from latchkey.domain.instants import DAY
from latchkey.emulators.emulator_server import ServedEmulator, running
from latchkey.emulators.google.google_emulator import GoogleEmulator
from latchkey.emulators.google.google_keys import make_google_keys
from latchkey.emulators.stripe.stripe_emulator import make_stripe_keys
from latchkey.subjects.accounts.rules import Role
from tests.dashboard.asking import somebody
from tests.dashboard.site import Site
from tests.dashboard.tab import tab
from tests.emulators.shops import play_store, stripe_account
from tests.http.apple import new_app, processor, put
from tests.http.client import NOW
from tests.http.doings import clock_with
from tests.http.management import get, walk
from tests.patience import until
from tests.subjects.customers.customer_stories import last_audit


@pytest.fixture(scope="module")
async def store(site: Site) -> AsyncIterator[tuple[GoogleEmulator, ServedEmulator]]:
    authority = site.settings.webhook_extra_ca
    assert authority is not None
    async with play_store(make_google_keys()) as emulator, running(emulator) as served:
        emulator.outbox.authority = authority.read_bytes
        yield emulator, served


@pytest.fixture(scope="module")
async def app(site: Site, store: tuple[GoogleEmulator, ServedEmulator]) -> dict[str, Any]:
    """An app of Google Play that is connected to the emulator, which the dashboard may act in."""
    emulator, served = store
    app = await new_app(site, "play_store")
    assert (await put(site, app["id"], emulator.credentials(served.base_url))).json()["check"]["result"] == "ok"
    emulator.outbox.url = site.url + urlsplit(app["notification_url"]).path
    name_stores(site, f"{site.project_id}/{app['id']}={served.control_url}")
    return app


def name_stores(site: Site, *named: str) -> None:
    guard: Any = site.dashboard[0]._guard
    guard._settings = replace(guard._settings, store_emulators=named)


@asynccontextmanager
async def processing(site: Site) -> AsyncIterator[None]:
    """While the background processes what the store sends."""

    async def process() -> None:
        while True:
            await processor(site).process_due()
            await asyncio.sleep(0.05)

    task = asyncio.create_task(process())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def events(site: Site, customer: str) -> list[str]:
    return [item["type"] for item in await walk(site, "events") if item["app_user_id"] == customer]


async def test_a_purchase_is_made_as_google_and_says_when_it_is_acknowledged(site: Site, app: dict[str, Any]) -> None:
    async with processing(site):
        page = await tab(site, Role.DEVELOPER, f"/apps/{app['id']}")
        await page.follow("Play Store emulator")
        assert page.value("Product") == "pro_monthly:monthly"
        await page.press("Buy as Google", {"Customer": "gustav"})
        assert "not acknowledged" in page.row("gustav", "#purchases")
        assert "wait for that before you move the clock" in page.text()
        site.clock.now += 60_000
        await until(processor(site).acknowledge_due)
        await page.open(f"/apps/{app['id']}/store-emulator")
        assert "active" in page.row("gustav", "#purchases")
        assert "not acknowledged" not in page.row("gustav", "#purchases")
        await page.press("Cancel", within="gustav")
        assert "cancelled" in page.row("gustav", "#purchases")
        await page.press("Turn renewal on", within="gustav")
        assert "cancelled" not in page.row("gustav", "#purchases")
        await page.press("Refund", within="gustav")
        assert "refunded" in page.row("gustav", "#purchases")
        assert "delivered" in page.text("#notifications tbody tr")
        await page.follow("gustav")
        assert page.heading == "gustav"


async def test_a_store_extends_cancels_and_refunds_from_the_customers_page(
    site: Site, app: dict[str, Any], store: tuple[GoogleEmulator, ServedEmulator]
) -> None:
    emulator, _ = store
    bought = emulator.sell(product_id="pro_monthly:monthly", buyer="gerd", account_token="gerd")
    emulator.acknowledge(bought)
    ends_at = emulator.known(bought).ends_at or 0
    await emulator.deliver()
    assert await processor(site).process_due()
    page = await tab(site, Role.DEVELOPER, "/customers/gerd")
    await page.press("Extend", {"Days more": "10"}, sure=True)
    assert "Extended. It runs until" in page.notice
    assert emulator.known(bought).ends_at == ends_at + 10 * DAY
    await page.press("Cancel the renewal", sure=True)
    assert "Cancelled." in page.notice
    assert not emulator.known(bought).auto_renew
    # Google extends only what renews, and the page says so.
    await page.press("Extend", {"Days more": "10"}, sure=True)
    assert "Google does not do this for the purchase as it stands" in page.alert
    assert (await last_audit(site))[:3] == ("customer.extended", "gerd", "refused")
    await page.press("Refund $9.99", sure=True)
    assert "Refunded." in page.notice
    assert emulator.known(bought).refunded_at is not None
    assert not [words for words in page.texts("details.action") if "Refund" in words]
    action, subject, outcome, detail = await last_audit(site)
    assert (action, subject, outcome, detail["store"]) == ("customer.refunded", "gerd", "done", "play_store")
    assert await events(site, "gerd") == ["INITIAL_PURCHASE", "SUBSCRIPTION_EXTENDED", "CANCELLATION", "REFUND"]


async def test_a_test_clock_follows_the_stores_clock(site: Site, app: dict[str, Any]) -> None:
    """Without it the end of a subscription in the store's future would not have happened here yet."""
    clock = await clock_with(site, "greta", site.clock.now, "with the store")
    async with processing(site):
        page = await tab(site, Role.DEVELOPER, f"/apps/{app['id']}/store-emulator")
        await page.press("Buy as Google", {"Customer": "greta"})
        assert page.row("greta", "#purchases")
        site.clock.now += 60_000
        await until(processor(site).acknowledge_due)
        await page.press("+ 1 month", {"The test clock that follows": clock})
        assert "The test clock followed to" in page.notice
        assert await events(site, "greta") == ["INITIAL_PURCHASE", "RENEWAL"]
        # It stays chosen, also for the buttons of a purchase.
        assert page.value("The test clock that follows") == clock
        await page.press("Renew", within="greta")
        assert "Done: renew. The test clock followed to" in page.notice
        await page.press("Cancel", within="greta")
        assert "cancelled" in page.row("greta", "#purchases")
        await page.press("+ 1 month")
        assert "over" in page.row("greta", "#purchases")
    assert await events(site, "greta") == ["INITIAL_PURCHASE", "RENEWAL", "RENEWAL", "CANCELLATION", "EXPIRATION"]
    stands = (await get(site, f"test_clocks/{clock}")).json()["now_ms"]
    assert stands > NOW + 86 * 86_400_000
    assert (await site.v2("greta")).json()["active_entitlements"]["items"] == []


async def test_a_clock_that_is_not_there_and_what_is_not_processed_are_said(site: Site, app: dict[str, Any]) -> None:
    me = await somebody(site, Role.DEVELOPER)
    start = f"/dashboard/projects/{site.project_id}/apps/{app['id']}/store-emulator"
    reply = await me.post(f"{start}/clock", {"by": "PT1H", "test_clock": "clk_none"})
    assert (reply.status, "There is no test clock" in reply.body.decode()) == (404, True)
    reply = await me.post(f"{start}/clock", {"by": "P9Y"})
    assert reply.status == 400
    viewer = await somebody(site, Role.VIEWER)
    assert (await viewer.post(f"{start}/clock", {"by": "PT1H"})).status == 403
    assert "Buy as Google" not in (await viewer.get(start)).body.decode()


async def test_a_purchase_is_made_as_stripe(site: Site) -> None:
    app = await new_app(site, "stripe")
    async with stripe_account(make_stripe_keys()) as emulator, running(emulator) as served:
        kept: Any = site.dashboard[0]._guard
        named = kept._settings.store_emulators
        name_stores(site, *named, f"{site.project_id}/{app['id']}={served.control_url}")
        try:
            me = await somebody(site, Role.DEVELOPER)
            start = f"/dashboard/projects/{site.project_id}/apps/{app['id']}/store-emulator"
            assert "Buy as Stripe" in (await me.get(start)).body.decode()
            sale = {"customer": "sven", "product": "pro_monthly:price_pro_monthly"}
            assert (await me.post(f"{start}/sell", sale)).status == 303
        finally:
            name_stores(site, *named)
        [truth] = emulator.expected_states()
        assert (truth.account_token, truth.active) == ("sven", True)


async def test_a_store_that_is_down_is_said_and_offers_nothing(site: Site) -> None:
    app = await new_app(site, "play_store")
    kept: Any = site.dashboard[0]._guard
    named = kept._settings.store_emulators
    # Nobody can listen on port 1 of loopback unasked.
    name_stores(site, f"{site.project_id}/{app['id']}=http://127.0.0.1:1/control")
    try:
        page = await tab(site, Role.OWNER, f"/apps/{app['id']}/store-emulator")
        assert (page.status, page.alert.endswith("does not answer. Is it still running?")) == (503, True)
        assert not page.soup.select("main form, #purchases")
        for what, form in (
            ("sell", {"customer": "gina", "product": "pro_monthly:monthly"}),
            ("act", {"purchase": "x", "act": "refund"}),
            ("clock", {"by": "P1D"}),
        ):
            reply = await page.person.post(f"{page.path}/{what}", form)
            assert (reply.status, "does not answer" in reply.body.decode()) == (503, True), what
    finally:
        name_stores(site, *named)
