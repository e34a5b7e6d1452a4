"""What is read beside a subscription: pages, lines, disputes, many payments; and what it costs."""

import pytest

from latchkey.domain.instants import DAY
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.purchases.subscription import Cause, Subscription
from latchkey.stores.adapter import AppReceipt, ConnectedApp, StoreReading
from latchkey.stores.errors import CredentialsRefused, InvalidReceipt, StoreDown
from latchkey.stores.http import StoreResponse
from latchkey.stores.stripe.adapter import StripeAdapter
from tests.stores.stripe.emulated_stripe import START, SUB, EmulatedStripe, Json, Step, error, event, sent


def only(reading: StoreReading) -> Subscription:
    [seen] = reading.seen
    assert isinstance(seen.snapshot, Subscription)
    return seen.snapshot


async def read_again(adapter: StripeAdapter, app: ConnectedApp, handle: str) -> StoreReading:
    return await adapter.read_again(app, handle, Environment.SANDBOX)


async def after(stripe: EmulatedStripe, adapter: StripeAdapter, app: ConnectedApp, *steps: Step) -> Subscription:
    """The subscription after these steps, read from Stripe."""
    for step in steps:
        await stripe.do(step)
    return only(await read_again(adapter, app, stripe.purchase))


async def read_newest(stripe: EmulatedStripe, adapter: StripeAdapter, app: ConnectedApp) -> StoreReading:
    """What the newest notification leads to."""
    filed = await adapter.verify(app, stripe.incoming(stripe.emulator.outbox.messages[-1]))
    return await adapter.read(app, filed.payload)


async def test_an_ordinary_reading_asks_four_questions(
    adapter: StripeAdapter, app: ConnectedApp, stripe: EmulatedStripe
) -> None:
    await stripe.do("buy")
    only(await read_newest(stripe, adapter, app))
    assert stripe.calls == [f"GET subscriptions/{stripe.purchase}", "GET invoices", "GET charges", "GET invoiceitems"]


@pytest.mark.parametrize(
    ("kind", "path"),
    [("sub", "subscriptions"), ("si", "subscription_items"), ("pi", "payment_intents"), ("cs", "checkout/sessions")],
)
async def test_a_handle_cannot_lead_to_another_path(
    adapter: StripeAdapter, app: ConnectedApp, stripe: EmulatedStripe, kind: str, path: str
) -> None:
    assert (await read_again(adapter, app, f"{kind}_1/../{kind}?y=1")).note.startswith("Stripe knows no such object")
    assert stripe.calls == [f"GET {path}/{kind}_1%2F..%2F{kind}%3Fy%3D1"]


async def test_a_long_history_is_read_in_pages_and_only_where_it_is_asked_for(
    adapter: StripeAdapter, app: ConnectedApp, stripe: EmulatedStripe
) -> None:
    for step in ("buy", "P7M"):
        await stripe.do(step)
    stripe.page = 3
    whole = await read_again(adapter, app, stripe.purchase)
    assert whole.seen[0].complete
    assert [period.number for period in only(whole).periods] == list(range(8))
    newest = await read_newest(stripe, adapter, app)
    assert not newest.seen[0].complete, "the core reads the whole if it lacks a period"
    assert len(only(newest).periods) == 3


async def test_payments_beyond_the_first_page_of_charges_are_asked_for_one_by_one(
    adapter: StripeAdapter, app: ConnectedApp, stripe: EmulatedStripe
) -> None:
    for step in ("buy", "P1D", "refund"):
        await stripe.do(step)
    refunded_at, notification = stripe.now // 1000 * 1000, stripe.emulator.outbox.messages[-1]
    for _ in range(5):
        stripe.emulator.sell(product_id="coins_100", buyer="ada")
    stripe.page = 2
    filed = await adapter.verify(app, stripe.incoming(notification))
    assert only(await adapter.read(app, filed.payload)).current.refunded_at == refunded_at


async def test_the_lines_of_a_long_invoice_are_read_too(
    adapter: StripeAdapter, app: ConnectedApp, stripe: EmulatedStripe
) -> None:
    def leave_lines_out(invoices: Json) -> None:
        invoices["data"][0]["lines"].update(has_more=True, data=[])

    stripe.edit["invoices"] = leave_lines_out
    assert (await after(stripe, adapter, app, "buy")).current.price.micros == 9_990_000


async def test_discounts_and_taxes_are_in_the_price(
    adapter: StripeAdapter, app: ConnectedApp, stripe: EmulatedStripe
) -> None:
    def discount(invoices: Json) -> None:
        [line] = invoices["data"][0]["lines"]["data"]
        line["discount_amounts"] = [{"amount": 200, "discount": "di_1"}]
        line["taxes"] = [{"amount": 150, "tax_behavior": "exclusive"}, {"amount": 10, "tax_behavior": "inclusive"}]

    stripe.edit["invoices"] = discount
    assert (await after(stripe, adapter, app, "buy")).current.price.micros == 9_490_000


@pytest.mark.parametrize(
    ("parts", "given_back", "refunded"),
    [((1.0,), 1_000_000, False), ((1.0, 2.0), 3_000_000, False), ((0.99, 9.0), 0, True)],
)
async def test_partial_refunds_add_up(
    adapter: StripeAdapter,
    app: ConnectedApp,
    stripe: EmulatedStripe,
    parts: tuple[float, ...],
    given_back: int,
    refunded: bool,
) -> None:
    steps: list[Step] = [step for part in parts for step in ("P1D", ("refund", {"amount": part}))]
    current = (await after(stripe, adapter, app, "buy", *steps)).current
    last = START + len(parts) * DAY
    assert (current.given_back, current.refunded_at) == (given_back, last if refunded else None)
    kept = [(START + n * DAY, round(sum(parts[:n]) * 1_000_000)) for n in range(1, len(parts) + 1)]
    assert [(part.at, part.micros) for part in current.parts_back] == kept[: len(parts) - refunded]


@pytest.mark.parametrize("first_id", ["in_1", "in_3"])
async def test_a_change_in_the_second_of_the_purchase_comes_after_it(
    adapter: StripeAdapter, app: ConnectedApp, stripe: EmulatedStripe, first_id: str
) -> None:
    def name(invoices: Json) -> None:
        for invoice in invoices["data"]:
            invoice["id"] = first_id if invoice["billing_reason"] == "subscription_create" else "in_2"

    stripe.edit["invoices"] = name
    bought, changed = (await after(stripe, adapter, app, "buy", ("change", {"product_id": "team_monthly"}))).periods
    assert (bought.id, bought.cause, changed.cause) == (first_id, Cause.PURCHASE, Cause.CHANGE)
    assert changed.changed_from == bought.product_id


async def test_a_debt_that_is_paid_after_the_next_period_began_does_not_run(
    adapter: StripeAdapter, app: ConnectedApp, stripe: EmulatedStripe
) -> None:
    then_past_due = ("fail_billing", {"then": "past_due", "retry_days": []})
    for step in ("buy", "P1M", then_past_due, "P1M"):
        await stripe.do(step)
    debt = [*stripe.books.invoices][-1]
    subscription = stripe.books.subscriptions[stripe.purchase]
    stripe.emulator.do(lambda changes: changes.put(subscription, failing=False))
    await stripe.do("P1M")
    newest = [*stripe.books.invoices][-1]
    periods = (await after(stripe, adapter, app, "P1D", "pay")).periods
    assert [period.id for period in periods][-2:] == [debt, newest]


async def test_the_country_is_that_of_the_payment(
    adapter: StripeAdapter, app: ConnectedApp, stripe: EmulatedStripe
) -> None:
    def pay_from(country: str | None) -> None:
        address = None if country is None else {"country": country}
        stripe.edit["charges"] = lambda charges: charges["data"][0].update(billing_details={"address": address})

    pay_from("at")
    assert (await after(stripe, adapter, app, ("buy", {"country": "DE"}))).current.country == "AT"
    pay_from(None)
    assert (await after(stripe, adapter, app)).current.country == "DE"


async def test_a_customer_who_was_deleted_still_owns_it(
    adapter: StripeAdapter, app: ConnectedApp, stripe: EmulatedStripe
) -> None:
    await stripe.do(("buy", {"account_token": None}))
    customer = next(iter(stripe.books.customers))
    deleted = {"id": customer, "object": "customer", "deleted": True}
    stripe.edit[f"subscriptions/{stripe.purchase}"] = lambda shown: shown.update(customer=deleted)
    assert (await read_again(adapter, app, stripe.purchase)).seen[0].account_token == customer


async def test_a_live_object_is_none_for_a_test_key(
    adapter: StripeAdapter, app: ConnectedApp, stripe: EmulatedStripe
) -> None:
    await stripe.do("buy")
    stripe.edit[f"subscriptions/{stripe.purchase}"] = lambda shown: shown.update(livemode=True)
    with pytest.raises(InvalidReceipt):
        await adapter.read_receipt(app, AppReceipt(token=stripe.purchase))


async def test_several_things_at_one_checkout_share_a_partial_refund(
    adapter: StripeAdapter, app: ConnectedApp, stripe: EmulatedStripe
) -> None:
    stripe.emulator.add_product({"id": "stars", "price": 4.99})
    await stripe.do(("buy", {"product_id": "coins_100", "also": ["stars"]}))
    await stripe.do(("refund", {"amount": 3.49}))
    reading = await read_again(adapter, app, stripe.purchase)
    session = stripe.books.sessions[stripe.purchase]
    assert [(seen.snapshot.id, seen.handle) for seen in reading.seen] == [
        (f"{session.payment_intent}#{item.id}", f"{session.id}#{item.id}") for item in session.items
    ]
    assert [getattr(seen.snapshot, "given_back", None) for seen in reading.seen] == [990_000, 2_490_000]
    assert await read_again(adapter, app, reading.seen[1].handle) == reading


async def test_all_that_is_bought_at_one_checkout_is_given(
    adapter: StripeAdapter, app: ConnectedApp, stripe: EmulatedStripe
) -> None:
    """Stripe shows ten of them with the checkout session."""
    names = [f"gem_{number}" for number in range(13)]
    for name in names:
        stripe.emulator.add_product({"id": name, "price": 0.99})
    await stripe.do(("buy", {"product_id": names[0], "also": names[1:]}))
    stripe.page = 5
    seen = (await read_again(adapter, app, stripe.purchase)).seen
    sold = [getattr(purchase.snapshot, "product_id", None) for purchase in seen]
    assert sold == [f"{name}:price_{name}" for name in names]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(StoreResponse(500, {}, b""), StoreDown), (error(401, type="authentication_error"), CredentialsRefused)],
)
async def test_a_receipt_that_cannot_be_checked_is_not_called_invalid(
    adapter: StripeAdapter, app: ConnectedApp, stripe: EmulatedStripe, answer: StoreResponse, expected: type[Exception]
) -> None:
    await stripe.do("buy")
    for path in (f"subscriptions/{stripe.purchase}", "invoices", "charges"):
        stripe.refuse = {path: answer}.get
        with pytest.raises(expected):
            await adapter.read_receipt(app, AppReceipt(token=stripe.purchase))


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"status": 5}, None),
        ({"items": 5}, None),
        ({"customer": {"object": "customer"}}, None),
        ({"currency": 5}, None),
        # It waits for a newer Latchkey.
        ({"status": "hibernating"}, "does not know"),
    ],
)
async def test_an_answer_without_what_it_must_have_is_stripe_in_trouble(
    adapter: StripeAdapter, app: ConnectedApp, stripe: EmulatedStripe, wrong: Json, match: str | None
) -> None:
    await stripe.do("buy")
    stripe.edit[f"subscriptions/{stripe.purchase}"] = lambda shown: shown.update(wrong)
    with pytest.raises(StoreDown, match=match):
        await read_again(adapter, app, stripe.purchase)


async def test_what_stripe_no_longer_has_is_noted(adapter: StripeAdapter, app: ConnectedApp) -> None:
    told = event("customer.subscription.updated", {"object": "subscription", "id": SUB}, START)
    reading = await adapter.read(app, (await adapter.verify(app, sent(told))).payload)
    assert (reading.seen, reading.note) == ((), "Stripe knows no such object in this account and mode.")
    assert (await read_again(adapter, app, SUB)).note == reading.note


async def test_missed_events_are_listed_with_what_they_point_at(
    adapter: StripeAdapter, app: ConnectedApp, stripe: EmulatedStripe
) -> None:
    for step in ("buy", "P1D", "cancel", "P1D", "uncancel", "P1D", "cancel", "P1D", "uncancel"):
        await stripe.do(step)

    def make_first_live(events: Json) -> None:
        for shown in events["data"]:
            shown["livemode"] = shown["created"] == START // 1000 + 2 * 86_400

    stripe.edit["events"] = make_first_live
    stripe.page = 2
    found = [missed async for missed in adapter.missed(app, START + DAY, START + 3 * DAY)]
    wanted = [
        event.id
        for event in stripe.books.events
        if event.created in (START // 1000 + 86_400, START // 1000 + 3 * 86_400)
    ]
    assert [missed.external_id for missed in found] == wanted[::-1]
    assert {missed.subject for missed in found} == {stripe.purchase}
