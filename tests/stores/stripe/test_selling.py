"""Stripe sells on web pages: what Latchkey asks the Stripe emulator for, and what a browser then pays."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests
from stripe.params.checkout import SessionCreateParams

from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.subscription import PeriodType, Subscription
from latchkey.domain.stores.store import WEB_BILLING
from latchkey.emulators.stripe.stripe_emulator import make_stripe_keys
from latchkey.now import real_now
from latchkey.stores.adapter import AppReceipt, ConnectedApp, StoreReading
from latchkey.stores.errors import ActionRefused, CredentialsRefused, InvalidReceipt
from latchkey.stores.selling import (
    CheckoutOrder,
    CheckoutState,
    HostedPage,
    LinkedPage,
    NotPayable,
    PaymentForm,
    ReturnAddresses,
    Sale,
    Sells,
)
from latchkey.stores.stripe.adapter import STORE, StripeAdapter
from latchkey.stores.stripe.selling import SoldPrice, SoldProduct, locale_of, session_of
from tests.emulators.stripe.conftest import Desk, asking

KEYS = make_stripe_keys()
DECLINED = "pm_card_chargeDeclined"
MONTHLY = CheckoutOrder(
    key="k1", app_user_id="ada", product_id="team_monthly", subscription=True, price=Price(29_990_000, "USD")
)


def ordered(product_id: str, price: float = 29.99, **more: Any) -> CheckoutOrder:
    named = {"key": "k1", "app_user_id": "ada", "subscription": True, **more}
    return CheckoutOrder(product_id=product_id, price=Price(round(price * 1_000_000), "USD"), **named)


@dataclass
class Counter:
    """An app that sells, and a browser."""

    desk: Desk
    stripe: StripeAdapter
    app: ConnectedApp

    async def pays(self, client_secret: str, **form: Any) -> int:
        """What Stripe.js sends; the status of the answer."""
        id = client_secret.partition("_secret_")[0]
        kind = {"cs": "payment_pages", "pi": "payment_intents", "seti": "setup_intents"}[id.partition("_")[0]]
        form = {"key": KEYS.publishable_key, "client_secret": client_secret, **form}
        if kind != "payment_pages":
            form.setdefault("payment_method", "pm_card_visa")
        reply = await asyncio.to_thread(requests.post, f"{self.desk.url}/v1/{kind}/{id}/confirm", data=form)
        return reply.status_code

    async def sale(self, handle: str, order: CheckoutOrder = MONTHLY) -> Sale:
        return await self.stripe.sale(self.app, order, handle)

    async def read(self, sale: Sale) -> StoreReading:
        return await self.stripe.read_receipt(self.app, AppReceipt(token=sale.receipt))


@contextlib.asynccontextmanager
async def selling(store: str, **more: Any) -> AsyncIterator[Counter]:
    async with asking(KEYS) as desk:
        stripe = StripeAdapter(real_now, store=store)
        given = {**desk.store.credentials(desk.url), **more}
        credentials = stripe.credential_form.parse(given, frozenset({"127.0.0.1"}))
        app = ConnectedApp(project_id="proj_1", app_id="app_1", store=store, credentials=credentials, version=1)
        assert isinstance(stripe, Sells)
        try:
            yield Counter(desk, stripe, app)
        finally:
            await stripe.close()


@pytest.fixture
async def hosted() -> AsyncIterator[Counter]:
    async with selling(STORE) as counter:
        yield counter


@pytest.fixture
async def form() -> AsyncIterator[Counter]:
    async with selling(WEB_BILLING) as counter:
        yield counter


async def test_the_embedded_page_is_paid_and_the_purchase_names_the_user(hosted: Counter) -> None:
    begun = await hosted.stripe.begin_sale(hosted.app, MONTHLY, None)
    assert isinstance(begun.page, HostedPage)
    account = begun.page.account
    assert (account.account_id, account.publishable_key) == (hosted.desk.store.account.id, KEYS.publishable_key)
    assert account.sandbox
    assert begun.handle is not None
    assert begun.expires_at is not None
    assert (await hosted.sale(begun.handle)).standing is CheckoutState.OPEN
    assert await hosted.pays(begun.page.client_secret, payment_method=DECLINED) == 402
    assert (await hosted.sale(begun.handle)).standing is CheckoutState.OPEN
    assert await hosted.pays(begun.page.client_secret, email="ada@example.com") == 200
    sale = await hosted.sale(begun.handle)
    assert sale.standing is CheckoutState.PAID
    [seen] = (await hosted.read(sale)).seen
    assert isinstance(seen.snapshot, Subscription)
    assert (seen.account_token, seen.snapshot.current.product_id) == ("ada", "team_monthly:price_team_monthly")
    assert seen.snapshot.current.price == MONTHLY.price


async def test_a_page_that_nobody_pays_expires(hosted: Counter) -> None:
    begun = await hosted.stripe.begin_sale(hosted.app, MONTHLY, "acct_of_the_app")
    assert isinstance(begun.page, HostedPage)
    assert begun.page.account.account_id == "acct_of_the_app"
    assert begun.handle is not None
    await hosted.desk.ask(lambda v1: v1.checkout.sessions.expire(str(begun.handle)))
    assert (await hosted.sale(begun.handle)).standing is CheckoutState.EXPIRED


@pytest.mark.parametrize("store", [STORE, WEB_BILLING])
async def test_a_page_behind_a_link_is_at_stripe_and_says_who_has_paid(store: str) -> None:
    back = ReturnAddresses("https://shop.example/done", "https://shop.example/")
    # Without a publishable key: no script of Stripe is in a page of ours.
    async with selling(store, publishable_key="") as counter:
        begun = await counter.stripe.begin_sale(counter.app, MONTHLY, None, back)
        assert isinstance(begun.page, LinkedPage)
        assert (await counter.sale(begun.handle or "")).standing is CheckoutState.OPEN
        gone = await asyncio.to_thread(
            requests.post, begun.page.url, {"email": "ada@example.com"}, allow_redirects=False
        )
        assert (gone.status_code, gone.headers["location"]) == (303, back.paid)
        sale = await counter.sale(begun.handle or "")
        assert (sale.standing, sale.email) == (CheckoutState.PAID, "ada@example.com")
        [seen] = (await counter.read(sale)).seen
        assert (seen.account_token, seen.snapshot.store) == ("ada", store)
        # Our page has shown the catalog's price.
        with pytest.raises(ActionRefused):
            await counter.stripe.begin_sale(counter.app, ordered("pro_yearly", 1), None, back)


async def test_a_trial_and_a_one_time_product_on_the_embedded_page(hosted: Counter) -> None:
    order = ordered("pro_monthly", 9.99, trial_days=7)
    begun = await hosted.stripe.begin_sale(hosted.app, order, None)
    assert isinstance(begun.page, HostedPage)
    assert await hosted.pays(begun.page.client_secret) == 200
    [seen] = (await hosted.read(await hosted.sale(begun.handle or "", order))).seen
    assert isinstance(seen.snapshot, Subscription)
    assert seen.snapshot.current.period_type is PeriodType.TRIAL
    coins = ordered("coins_100", 1.99, subscription=False, key="k2")
    begun = await hosted.stripe.begin_sale(hosted.app, coins, None)
    assert isinstance(begun.page, HostedPage)
    assert await hosted.pays(begun.page.client_secret) == 200
    [seen] = (await hosted.read(await hosted.sale(begun.handle or "", coins))).seen
    assert isinstance(seen.snapshot, Purchase)
    assert (seen.account_token, seen.snapshot.price.micros) == ("ada", 1_990_000)


async def test_a_form_has_stripes_amount_and_its_payment_becomes_the_subscription(form: Counter) -> None:
    begun = await form.stripe.begin_sale(form.app, MONTHLY, None)
    assert isinstance(begun.page, PaymentForm)
    assert (begun.page.mode, begun.page.amount, begun.page.currency) == ("payment", 2999, "usd")
    assert (begun.page.total, begun.handle) == (MONTHLY.price, None)
    made = await form.stripe.confirm_sale(form.app, MONTHLY, None)
    # Nothing was paid: no access, whatever the page says.
    sale = await form.sale(made.handle)
    assert sale.standing is CheckoutState.OPEN
    assert (await form.read(sale)).seen == ()
    assert await form.pays(made.client_secret, payment_method=DECLINED) == 402
    assert (await form.sale(made.handle)).standing is CheckoutState.OPEN
    # Asking again, and again as if the first answer was lost, is the same payment.
    assert await form.stripe.confirm_sale(form.app, MONTHLY, made.handle) == made
    assert await form.stripe.confirm_sale(form.app, MONTHLY, None) == made
    assert await form.pays(made.client_secret) == 200
    sale = await form.sale(made.handle)
    assert sale.standing is CheckoutState.PAID
    [seen] = (await form.read(sale)).seen
    assert isinstance(seen.snapshot, Subscription)
    assert (seen.snapshot.store, seen.account_token) == (WEB_BILLING, "ada")
    with pytest.raises(NotPayable):
        await form.stripe.confirm_sale(form.app, MONTHLY, made.handle)


async def test_a_trial_in_a_form_begins_when_the_card_is_saved_and_only_once(form: Counter) -> None:
    order = ordered("pro_monthly", 9.99, trial_days=7)
    begun = await form.stripe.begin_sale(form.app, order, None)
    assert isinstance(begun.page, PaymentForm)
    assert (begun.page.mode, begun.page.total.micros) == ("setup", 0)
    made = await form.stripe.confirm_sale(form.app, order, None)
    assert made.handle.startswith("seti_")
    assert (await form.sale(made.handle, order)).standing is CheckoutState.OPEN
    # Stripe would begin a trial at once if the subscription was created before the card.
    assert form.desk.store.books.subscriptions == {}
    assert await form.pays(made.client_secret) == 200
    sale = await form.sale(made.handle, order)
    assert await form.sale(made.handle, order) == sale
    [subscription] = form.desk.store.books.subscriptions
    assert (sale.standing, sale.receipt) == (CheckoutState.PAID, subscription)
    [seen] = (await form.read(sale)).seen
    assert isinstance(seen.snapshot, Subscription)
    assert (seen.account_token, seen.snapshot.current.period_type) == ("ada", PeriodType.TRIAL)


async def test_a_one_time_product_in_a_form_is_a_payment_and_its_id_is_no_receipt(form: Counter) -> None:
    order = ordered("coins_100", 1.99, subscription=False)
    made = await form.stripe.confirm_sale(form.app, order, None)
    assert made.handle.startswith("pi_")
    sale = await form.sale(made.handle, order)
    assert (sale.standing, sale.receipt) == (CheckoutState.OPEN, made.client_secret)
    assert (await form.read(sale)).seen == ()
    assert await form.pays(made.client_secret) == 200
    sale = await form.sale(made.handle, order)
    assert sale.standing is CheckoutState.PAID
    [seen] = (await form.read(sale)).seen
    bought = seen.snapshot
    assert isinstance(bought, Purchase)
    assert (bought.id, seen.handle, seen.account_token) == (made.handle, made.handle, "ada")
    assert (bought.product_id, bought.price) == ("coins_100:price_coins_100", order.price)
    # V1 shows the id to everybody. Who knows no more has no receipt.
    for token in (made.handle, f"{made.handle}_secret_{'0' * 24}"):
        with pytest.raises(InvalidReceipt):
            await form.read(Sale(standing=CheckoutState.PAID, receipt=token))
    # Money that goes back is told of the payment.
    await form.desk.ask(lambda v1: v1.refunds.create({"payment_intent": made.handle}))
    [again] = (await form.stripe.read_again(form.app, made.handle, bought.environment)).seen
    assert isinstance(again.snapshot, Purchase)
    assert again.snapshot.refunded_at is not None


async def test_stripe_keeps_the_offering_with_whatever_is_sold(hosted: Counter, form: Counter) -> None:
    """So it is known also where Stripe's webhook tells of the purchase, and the page never asks again."""
    month = ordered("team_monthly", offering="autumn")
    trial = ordered("pro_monthly", 9.99, trial_days=7, offering="autumn", key="k2")
    coins = ordered("coins_100", 1.99, subscription=False, offering="autumn", key="k3")
    for order in (month, trial, coins):
        begun = await hosted.stripe.begin_sale(hosted.app, order, None)
        assert isinstance(begun.page, HostedPage)
        assert await hosted.pays(begun.page.client_secret) == 200
        made = await form.stripe.confirm_sale(form.app, order, None)
        assert await form.pays(made.client_secret) == 200
        for counter, handle in ((hosted, begun.handle or ""), (form, made.handle)):
            [seen] = (await counter.read(await counter.sale(handle, order))).seen
            [again] = (await counter.stripe.read_again(counter.app, seen.handle, seen.snapshot.environment)).seen
            for one in (seen, again):
                assert (one.offering, one.offered) == ("autumn", (order.product_id,))


async def test_a_payment_that_was_not_sold_here_is_nothing_of_ours(form: Counter) -> None:
    given: Any = {"amount": 100, "currency": "usd", "metadata": {"app_user_id": "ada"}}
    other = await form.desk.ask(lambda v1: v1.payment_intents.create(given))
    assert await form.pays(other.client_secret) == 200
    assert (await form.read(Sale(standing=CheckoutState.PAID, receipt=other.client_secret))).seen == ()


async def test_a_buyer_with_another_email_is_another_customer_of_stripe(form: Counter) -> None:
    """Never one that Stripe has already, whatever email the page sends: its cards are somebody's."""
    victim = await form.desk.ask(lambda v1: v1.customers.create({"email": "ada@example.com"}))
    emails: list[str | None] = [None, "ada@example.com"]
    for email in emails:
        order = ordered("team_monthly", email=email)
        await form.stripe.confirm_sale(form.app, order, None)
    made = {subscription.customer for subscription in form.desk.store.books.subscriptions.values()}
    assert len(made) == 2
    assert victim.id not in made


NOT_SOLD = {
    "unknown": (ordered("nothing"), "no product or price"),
    "a price of another product": (ordered("team_monthly:price_pro_yearly"), "does not belong"),
    "an address": (ordered("team_monthly?expand[]=x"), "no product or price"),
    "a subscription that the catalog sells once": (ordered("team_monthly", subscription=False), "a subscription"),
    "a one-time product that the catalog renews": (ordered("coins_100", 1.99), "a one-time purchase"),
    "a price that the page does not show": (ordered("team_monthly", 19.99), "is not Stripe's"),
}


@pytest.mark.parametrize("what", NOT_SOLD)
async def test_what_stripe_would_sell_differently_is_refused(form: Counter, what: str) -> None:
    order, reason = NOT_SOLD[what]
    for ask in (
        lambda: form.stripe.payment_form(form.app, order, None),
        lambda: form.stripe.begin_sale(form.app, order, None),
        lambda: form.stripe.confirm_sale(form.app, order, None),
    ):
        with pytest.raises(ActionRefused, match=reason):
            await ask()
    assert form.desk.store.books.subscriptions == {}


async def test_the_embedded_page_shows_stripes_own_price_so_the_catalogs_may_differ(hosted: Counter) -> None:
    begun = await hosted.stripe.begin_sale(hosted.app, ordered("team_monthly", 0.01), None)
    assert isinstance(begun.page, HostedPage)
    assert await hosted.pays(begun.page.client_secret) == 200
    [seen] = (await hosted.read(await hosted.sale(begun.handle or ""))).seen
    assert isinstance(seen.snapshot, Subscription)
    assert seen.snapshot.current.price == MONTHLY.price


async def test_each_way_to_pay_has_its_own_steps(hosted: Counter) -> None:
    with pytest.raises(NotPayable):
        await hosted.stripe.payment_form(hosted.app, MONTHLY, None)
    with pytest.raises(NotPayable):
        await hosted.stripe.confirm_sale(hosted.app, MONTHLY, None)


async def test_a_page_needs_the_publishable_key_and_a_key_that_works() -> None:
    async with selling(STORE, publishable_key=None) as counter:
        with pytest.raises(ActionRefused, match="publishable_key"):
            await counter.stripe.begin_sale(counter.app, MONTHLY, None)
    wrong = "sk_test_" + "0" * 24
    async with selling(STORE, api_key=wrong) as counter:
        with pytest.raises(CredentialsRefused):
            await counter.stripe.begin_sale(counter.app, MONTHLY, "acct_1")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("de", "de"),
        ("de_AT", "de"),
        ("pt_BR", "pt-BR"),
        ("zh-Hans", "zh"),
        ("ca", "auto"),
        ("'; --", "auto"),
        (None, "auto"),
    ],
)
def test_stripe_is_told_a_language_that_it_knows(asked: str | None, told: str) -> None:
    assert locale_of(asked) == told


def test_stripes_library_takes_what_is_sent() -> None:
    """The names of the parameters, as the locked library describes them."""
    price = SoldPrice(id="price_1", active=True, currency="usd", type="recurring", product=SoldProduct(id="prod_1"))
    sent = session_of(ordered("prod_1", email="a@b.c", trial_days=7), price, {"app_user_id": "ada"})
    assert sent.keys() <= SessionCreateParams.__annotations__.keys()
