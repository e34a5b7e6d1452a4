"""What the Stripe emulator sends and answers is what Stripe's own library takes and a server needs."""

import asyncio
import itertools
from typing import Any

import pytest
import requests
import stripe

from latchkey.domain.instants import DAY
from latchkey.emulators.stripe.stripe_emulator import SENT, StripeKeys
from latchkey.emulators.stripe.stripe_objects import API_VERSION
from latchkey.stores.stripe.notification import EVENT_TYPES
from tests.emulators.receiving import Taken, receiving
from tests.emulators.shops import START, stripe_account
from tests.emulators.stripe.conftest import Desk


def event_in(taken: Taken, secret: str) -> Any:
    """As a receiver checks it with Stripe's library: signature and age."""
    return stripe.Webhook.construct_event(taken.raw, taken.headers.get("stripe-signature"), secret)


def test_it_speaks_the_version_of_the_locked_library() -> None:
    assert stripe.api_version == API_VERSION


async def test_stripes_library_takes_every_webhook_and_it_names_the_object(stripe_keys: StripeKeys) -> None:
    async with stripe_account(stripe_keys) as store, receiving() as service:
        store.outbox.url = service.url
        id = store.sell(product_id="pro_monthly", buyer="ada", account_token="user-7")
        store.act(id, "cancel")
        store.send_test()
        await store.deliver()
        events = [event_in(request, stripe_keys.webhook_secret) for request in service.taken]
        assert [event.type for event in events] == [
            "customer.subscription.created",
            "invoice.finalized",
            "invoice.paid",
            "customer.subscription.updated",
            "product.created",
        ]
        created, _, paid, updated, _ = events
        assert (created.data.object.id, created.data.object.metadata["app_user_id"]) == (id, "user-7")
        assert paid.data.object.parent.subscription_details.subscription == id
        assert updated.data.previous_attributes["cancel_at_period_end"] is False
        assert {(event.api_version, event.livemode) for event in events} == {(API_VERSION, False)}
        assert len({event.id for event in events}) == 5


async def test_while_a_secret_is_rotated_both_are_signed_with(stripe_keys: StripeKeys) -> None:
    async with stripe_account(stripe_keys) as store, receiving() as service:
        store.outbox.url = service.url
        store.rotate_secret()
        store.sell(product_id="coins_100")
        await store.deliver()
        (taken,) = service.taken
        assert store.keys.webhook_secret != stripe_keys.webhook_secret
        for secret in (store.keys.webhook_secret, stripe_keys.webhook_secret):
            assert event_in(taken, secret).type == "checkout.session.completed"


async def test_a_subscription_is_told_in_stripes_fields(desk: Desk) -> None:
    id = desk.store.sell(product_id="pro_monthly", buyer="ada", trial=True, country="DE")
    wanted = {"expand": ["customer", "schedule", "latest_invoice.payments"]}
    said = await desk.ask(lambda v1: v1.subscriptions.retrieve(id, wanted))
    (item,) = said["items"].data
    start = START // 1000
    assert (said.status, said.trial_end, said.schedule) == ("trialing", start + 7 * 86400, None)
    assert (item.current_period_start, item.current_period_end) == (start, said.trial_end)
    assert (item.price.id, item.price.product, item.price.unit_amount) == ("price_pro_monthly", "pro_monthly", 999)
    assert (said.customer.name, said.customer.address.country) == ("ada", "DE")
    assert (said.latest_invoice.status, said.latest_invoice.total) == ("paid", 0)
    assert said.latest_invoice.payments.data == []
    desk.store.act(id, "change", product_id="pro_yearly", deferred=True)
    said = await desk.ask(lambda v1: v1.subscriptions.retrieve(id, wanted))
    assert [phase["items"][0].price for phase in said.schedule.phases] == ["price_pro_monthly", "price_pro_yearly"]


async def test_invoices_tell_each_paid_period_with_its_payment(desk: Desk) -> None:
    id = desk.store.sell(product_id="pro_monthly", buyer="ada", trial=True)
    await desk.store.move(START + 40 * DAY)

    def read(v1: Any) -> list[Any]:
        return list(v1.invoices.list({"subscription": id, "limit": 2, "expand": ["data.payments"]}).auto_paging_iter())

    second, first, trial = await desk.ask(read)
    assert [invoice.billing_reason for invoice in (trial, first, second)] == [
        "subscription_create",
        "subscription_cycle",
        "subscription_cycle",
    ]
    assert [invoice.amount_paid for invoice in (trial, first, second)] == [0, 999, 999]
    (line,) = first.lines.data
    assert line.period.start == trial.lines.data[0].period.end
    assert line.parent.subscription_item_details.proration is False
    assert line.pricing.price_details.product == "pro_monthly"
    (payment,) = first.payments.data
    intent = payment.payment.payment_intent
    found = await desk.ask(
        lambda v1: v1.invoice_payments.list({"payment": {"type": "payment_intent", "payment_intent": intent}})
    )
    assert [item.invoice for item in found.data] == [first.id]
    (charge,) = (await desk.ask(lambda v1: v1.charges.list({"payment_intent": intent}))).data
    assert (charge.amount, charge.paid, charge.billing_details.address.country) == (999, True, "US")


async def test_refunds_and_disputes_show_where_the_money_went(desk: Desk) -> None:
    id = desk.store.sell(product_id="pro_monthly", buyer="ada")
    (charge,) = (await desk.ask(lambda v1: v1.charges.list())).data
    part = await desk.ask(lambda v1: v1.refunds.create({"charge": charge.id, "amount": 300}))
    assert (part.amount, part.status) == (300, "succeeded")
    wanted = {"expand": ["refunds.data.failure_balance_transaction"]}
    charge = await desk.ask(lambda v1: v1.charges.retrieve(charge.id, wanted))
    assert (charge.amount_refunded, charge.refunded) == (300, False)
    desk.store.act(id, "fail_refund")
    charge = await desk.ask(lambda v1: v1.charges.retrieve(charge.id, wanted))
    (failed,) = charge.refunds.data
    assert (charge.amount_refunded, failed.status) == (0, "failed")
    assert failed.failure_balance_transaction.created == desk.store.now
    await desk.ask(lambda v1: v1.refunds.create({"payment_intent": charge.payment_intent}))
    charge = await desk.ask(lambda v1: v1.charges.retrieve(charge.id))
    assert (charge.amount_refunded, charge.refunded) == (999, True)
    with pytest.raises(stripe.InvalidRequestError):
        await desk.ask(lambda v1: v1.refunds.create({"charge": charge.id}))
    coins = desk.store.sell(product_id="coins_100", buyer="bob")
    desk.store.act(coins, "dispute")
    desk.store.act(coins, "win_dispute")
    (dispute,) = (await desk.ask(lambda v1: v1.disputes.list())).data
    assert (dispute.status, [movement.amount for movement in dispute.balance_transactions]) == ("won", [-199, 199])


async def test_a_subscription_is_changed_and_cancelled_through_the_api(desk: Desk) -> None:
    customer = await desk.ask(lambda v1: v1.customers.create({"email": "ada@example.com", "metadata": {"a": "b"}}))
    body: Any = {"customer": customer.id, "items": [{"price": "price_pro_monthly"}], "metadata": {"user": "ada"}}
    made = await desk.ask(lambda v1: v1.subscriptions.create(body))
    assert (made.status, made.metadata["user"]) == ("active", "ada")
    later = await desk.ask(lambda v1: v1.subscriptions.update(made.id, {"cancel_at_period_end": True}))
    assert (later.cancel_at_period_end, later.cancel_at) == (True, later["items"].data[0].current_period_end)
    again = await desk.ask(lambda v1: v1.subscriptions.update(made.id, {"cancel_at_period_end": False}))
    assert (again.cancel_at, again.canceled_at) == (None, None)
    change: Any = {"items": [{"id": made["items"].data[0].id, "price": "price_team_monthly"}]}
    changed = await desk.ask(lambda v1: v1.subscriptions.update(made.id, change))
    assert changed["items"].data[0].price.product == "team_monthly"
    pending = await desk.ask(lambda v1: v1.invoice_items.list({"customer": customer.id, "pending": True}))
    assert [item.proration for item in pending.data] == [True, True]
    removal: Any = {"items": [{"id": made["items"].data[0].id, "deleted": True}]}
    with pytest.raises(stripe.InvalidRequestError):
        await desk.ask(lambda v1: v1.subscriptions.update(made.id, removal))
    over = await desk.ask(lambda v1: v1.subscriptions.cancel(made.id))
    assert (over.status, over.cancellation_details.reason) == ("canceled", "cancellation_requested")


async def test_the_log_of_events_is_read_page_by_page(desk: Desk) -> None:
    desk.store.sell(product_id="pro_monthly", buyer="ada")
    await desk.store.move(START + 70 * DAY)
    since = START // 1000 + 41 * 86400

    def read(v1: Any) -> list[Any]:
        asked = {"types": ["invoice.paid", "charge.succeeded"], "created": {"gte": since}, "limit": 1}
        return [event.type for event in v1.events.list(asked).auto_paging_iter()]

    assert sorted(await desk.ask(read)) == ["charge.succeeded", "invoice.paid"]
    # Stripe lists the events of the last 30 days.
    everything = await desk.ask(lambda v1: v1.events.list({"limit": 100}))
    assert min(item.created for item in everything.data) >= since - 86400


async def test_a_request_with_the_same_key_is_carried_out_once(desk: Desk) -> None:
    body, same = {"email": "ada@example.com"}, {"idempotency_key": "k-1"}
    first, second = [await desk.ask(lambda v1: v1.customers.create(body, same)) for _ in range(2)]
    assert first.id == second.id
    with pytest.raises(stripe.IdempotencyError):
        await desk.ask(lambda v1: v1.customers.create({"email": "bob@example.com"}, same))


async def test_unknown_and_wrong_requests_get_stripes_errors(desk: Desk) -> None:
    for wrong in (
        lambda v1: v1.subscriptions.retrieve("sub_none"),
        lambda v1: v1.invoices.list({"subscription": "sub_none"}),
        lambda v1: v1.checkout.sessions.retrieve("cs_none"),
    ):
        with pytest.raises(stripe.InvalidRequestError) as error:
            await desk.ask(wrong)
        assert (error.value.http_status, error.value.code) == (404, "resource_missing")
    for bad in (
        lambda v1: v1.prices.list({"expand": ["data.nothing"]}),
        lambda v1: v1.invoices.list({"limit": 1000}),
        lambda v1: v1.subscriptions.create({"customer": "cus_none", "items": [{"price": "price_pro_monthly"}]}),
    ):
        with pytest.raises(stripe.InvalidRequestError) as error:
            await desk.ask(bad)
        assert error.value.http_status == 400
    for header in ({}, {"Authorization": "Bearer sk_test_guess"}):
        reply = await asyncio.to_thread(requests.get, f"{desk.url}/v1/account", headers=header)
        assert (reply.status_code, "error" in reply.json()) == (401, True)


async def test_the_api_can_be_busy(desk: Desk) -> None:
    desk.store.misbehave(api={"kind": "busy", "retry_after": 7, "times": 1})
    with pytest.raises(stripe.RateLimitError) as error:
        await desk.ask(lambda v1: v1.subscriptions.list())
    assert (error.value.headers or {})["retry-after"] == "7"
    assert (await desk.ask(lambda v1: v1.subscriptions.list())).data == []


async def test_stripe_tries_again_three_times_in_test_mode(stripe_keys: StripeKeys) -> None:
    async with stripe_account(stripe_keys) as store, receiving() as service:
        store.outbox.url = service.url
        service.status = 500
        store.sell(product_id="coins_100")
        await store.move(START + DAY)
        (message,) = store.outbox.messages
        at = [attempt.at for attempt in message.attempts]
        assert [(after - before) // 60_000 for before, after in itertools.pairwise(at)] == [5, 60, 180]
        assert message.state == "given up"


def test_stripe_sends_what_latchkey_asks_for() -> None:
    assert set(EVENT_TYPES) == SENT
