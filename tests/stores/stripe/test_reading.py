"""What is read beside a subscription: pages, lines, disputes, many payments; and what it costs."""

from __future__ import annotations

import pytest

from latchkey.domain.instants import DAY, HOUR
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.purchases.subscription import Subscription
from latchkey.stores.adapter import AppReceipt, ConnectedApp, Reading
from latchkey.stores.errors import CredentialsRefused, InvalidReceipt, StoreDown
from latchkey.stores.http import Answer
from latchkey.stores.stripe.adapter import StripeAdapter
from tests.stores.stripe.account import CUSTOMER, MONTH, SESSION, START, SUB, error, event, sent
from tests.stores.stripe.shop import Shop


def only(reading: Reading) -> Subscription:
    [seen] = reading.seen
    assert isinstance(seen.snapshot, Subscription)
    return seen.snapshot


async def read_again(stripe: StripeAdapter, app: ConnectedApp, handle: str = SUB) -> Reading:
    return await stripe.read_again(app, handle, Environment.SANDBOX)


def years(shop: Shop, renewals: int) -> None:
    shop.subscribe()
    for number in range(1, renewals + 1):
        shop.now = START + number * MONTH + HOUR
        shop.renew()


async def test_an_ordinary_reading_asks_four_questions(stripe: StripeAdapter, app: ConnectedApp, shop: Shop) -> None:
    shop.subscribe()
    filed = await stripe.verify(app, sent(event("invoice.paid", shop.invoices[0], shop.now)))
    only(await stripe.read(app, filed.payload))
    assert shop.calls == [f"GET subscriptions/{SUB}", "GET invoices", "GET charges", "GET invoiceitems"]


async def test_a_long_history_is_read_in_pages_and_only_where_it_is_asked_for(
    stripe: StripeAdapter, app: ConnectedApp, shop: Shop
) -> None:
    years(shop, 7)
    shop.page = 3
    whole = await read_again(stripe, app)
    assert whole.seen[0].complete
    assert [one.number for one in only(whole).periods] == list(range(8))
    payload = (await stripe.verify(app, sent(event("invoice.paid", shop.invoices[-1], shop.now)))).payload
    newest = await stripe.read(app, payload)
    assert not newest.seen[0].complete, "the core reads the whole if it lacks a period"
    assert len(only(newest).periods) == 3


async def test_payments_beyond_the_first_page_of_charges_are_asked_for_one_by_one(
    stripe: StripeAdapter, app: ConnectedApp, shop: Shop
) -> None:
    shop.subscribe()
    shop.now += DAY
    shop.refund()
    for number in range(5):
        shop.charge(f"pi_other_{number}", 100)
    shop.page = 2
    payload = (await stripe.verify(app, sent(event("charge.refunded", shop.charges[0], shop.now)))).payload
    assert only(await stripe.read(app, payload)).current.refunded_at == shop.now


async def test_the_lines_of_a_long_invoice_are_read_too(stripe: StripeAdapter, app: ConnectedApp, shop: Shop) -> None:
    shop.subscribe()
    lines = shop.invoices[0]["lines"]
    lines.update(has_more=True, data=[])
    shop.more_lines[shop.invoices[0]["id"]] = [shop.line(999)]
    assert only(await read_again(stripe, app)).current.price.micros == 9_990_000


async def test_discounts_and_taxes_are_in_the_price(stripe: StripeAdapter, app: ConnectedApp, shop: Shop) -> None:
    shop.subscribe()
    [line] = shop.invoices[0]["lines"]["data"]
    line["discount_amounts"] = [{"amount": 200, "discount": "di_1"}]
    line["taxes"] = [{"amount": 150, "tax_behavior": "exclusive"}, {"amount": 10, "tax_behavior": "inclusive"}]
    assert only(await read_again(stripe, app)).current.price.micros == 9_490_000


@pytest.mark.parametrize(
    ("parts", "given_back", "refunded"),
    [((100,), 1_000_000, False), ((100, 200), 3_000_000, False), ((99, 900), 0, True)],
)
async def test_partial_refunds_add_up(
    stripe: StripeAdapter, app: ConnectedApp, shop: Shop, parts: tuple[int, ...], given_back: int, refunded: bool
) -> None:
    shop.subscribe()
    days = []
    for part in parts:
        shop.now += DAY
        days.append(shop.now)
        shop.refund(amount=part)
    current = only(await read_again(stripe, app)).current
    assert (current.given_back, current.refunded_at) == (given_back, shop.now if refunded else None)
    kept = [(at, sum(parts[: n + 1]) * 10_000) for n, at in enumerate(days)][: len(parts) - refunded]
    assert [(one.at, one.micros) for one in current.parts_back] == kept


async def test_a_debt_that_is_paid_after_the_next_period_began_does_not_run(
    stripe: StripeAdapter, app: ConnectedApp, shop: Shop
) -> None:
    years(shop, 1)
    shop.now += MONTH
    debt = shop.renew(paid=False)
    shop.now += MONTH
    newest = shop.renew()
    shop.now += DAY
    shop.pay(debt)
    periods = only(await read_again(stripe, app)).periods
    assert [one.id for one in periods][-2:] == [debt["id"], newest["id"]]


async def test_the_country_is_that_of_the_payment(stripe: StripeAdapter, app: ConnectedApp, shop: Shop) -> None:
    shop.subscribe()
    shop.charges[0]["billing_details"] = {"address": {"country": "at"}}
    assert only(await read_again(stripe, app)).current.country == "AT"
    shop.charges[0]["billing_details"] = {"address": None}
    assert only(await read_again(stripe, app)).current.country == "DE"


async def test_a_customer_who_was_deleted_still_owns_it(stripe: StripeAdapter, app: ConnectedApp, shop: Shop) -> None:
    shop.subscribe(metadata={})
    shop.customer = {"id": CUSTOMER, "object": "customer", "deleted": True}
    assert (await read_again(stripe, app)).seen[0].account_token == CUSTOMER


async def test_a_live_object_is_none_for_a_test_key(stripe: StripeAdapter, app: ConnectedApp, shop: Shop) -> None:
    shop.subscribe(livemode=True)
    with pytest.raises(InvalidReceipt):
        await stripe.read_receipt(app, AppReceipt(token=SUB))


async def test_several_things_at_one_checkout_share_a_partial_refund(
    stripe: StripeAdapter, app: ConnectedApp, shop: Shop
) -> None:
    shop.checkout("coins", "basic")
    shop.refund(amount=399)
    reading = await read_again(stripe, app, SESSION)
    assert [(one.snapshot.id, one.handle) for one in reading.seen] == [
        ("pi_once_1#li_coins", f"{SESSION}#li_coins"),
        ("pi_once_1#li_basic", f"{SESSION}#li_basic"),
    ]
    back = [getattr(one.snapshot, "given_back", None) for one in reading.seen]
    assert back == [1_490_000, 2_490_000]
    assert await read_again(stripe, app, f"{SESSION}#li_basic") == reading


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(Answer(500, {}, b""), StoreDown), (error(401, type="authentication_error"), CredentialsRefused)],
)
async def test_a_receipt_that_cannot_be_checked_is_not_called_invalid(
    stripe: StripeAdapter, app: ConnectedApp, shop: Shop, answer: Answer, expected: type[Exception]
) -> None:
    shop.subscribe()
    for path in (f"subscriptions/{SUB}", "invoices", "charges"):
        shop.refuse = {path: answer}.get
        with pytest.raises(expected):
            await stripe.read_receipt(app, AppReceipt(token=SUB))


@pytest.mark.parametrize("field", ["status", "items", "customer", "currency"])
async def test_an_answer_without_what_it_must_have_is_stripe_in_trouble(
    stripe: StripeAdapter, app: ConnectedApp, shop: Shop, field: str
) -> None:
    shop.subscribe()
    shop.sub[field] = 5
    if field == "customer":
        shop.customer = {"object": "customer"}
    with pytest.raises(StoreDown):
        await read_again(stripe, app)


async def test_a_state_that_is_not_known_waits_for_a_newer_latchkey(
    stripe: StripeAdapter, app: ConnectedApp, shop: Shop
) -> None:
    shop.subscribe()
    shop.sub["status"] = "hibernating"
    with pytest.raises(StoreDown, match="does not know"):
        await read_again(stripe, app)


async def test_what_stripe_no_longer_has_is_noted(stripe: StripeAdapter, app: ConnectedApp, shop: Shop) -> None:
    told = event("customer.subscription.updated", {"object": "subscription", "id": SUB}, shop.now)
    reading = await stripe.read(app, (await stripe.verify(app, sent(told))).payload)
    assert (reading.seen, reading.note) == ((), "Stripe knows no such object in this account and mode.")
    assert (await read_again(stripe, app)).note == reading.note


async def test_missed_events_are_listed_with_what_they_point_at(
    stripe: StripeAdapter, app: ConnectedApp, shop: Shop
) -> None:
    shop.subscribe()
    for number in range(5):
        shop.events.append(event("customer.subscription.updated", shop.sub, START + number * DAY))
    shop.events.append(event("invoice.paid", shop.invoices[0], START + 2 * DAY) | {"livemode": True})
    shop.page = 2
    found = [one async for one in stripe.missed(app, START + DAY, START + 3 * DAY)]
    assert [one.external_id for one in found] == [one["id"] for one in shop.events[3:0:-1]]
    assert {one.subject for one in found} == {SUB}
