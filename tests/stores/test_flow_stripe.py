"""Stripe Billing beside the whole service: events that are only pointers, receipts, identities, and what Stripe is
asked to do."""

from typing import Any

import pytest

from latchkey.domain.instants import DAY, Ms
from latchkey.emulators.stripe.stripe_emulator import StripeEmulator
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.projects import usecases as projects
from latchkey.subjects.purchase_intake.usecases import store_connections as credentials
from latchkey.subjects.purchase_intake.usecases.notifications import OF_ANOTHER_APP
from tests.http.client import Reply
from tests.stores.test_actions import act, one_time, said, subscription
from tests.stores.world import PROJECT, World

pytestmark = pytest.mark.thorough

DOWN: dict[str, Any] = {"kind": "error", "status": 503}
PRO = "pro_monthly:price_pro_monthly"


async def bought(world: World, product: str = "pro_monthly", **more: Any) -> str:
    return await world.sell(product_id=product, buyer="ada", **{"account_token": "ada", **more})


async def shown(world: World, token: str, who: str = "ada") -> Reply:
    body = {"fetch_token": token, "product_id": "pro_monthly", "product_ids": ["pro_monthly"], "app_user_id": who}
    return await world.client.post("/v1/receipts", body, key=world.public_key)


async def test_an_event_becomes_access_and_events(billing: World) -> None:
    purchase = await bought(billing)
    assert await billing.types("ada") == ["INVOICE_ISSUANCE", "INITIAL_PURCHASE"]
    assert await billing.access("ada") == {"pro"}
    [issued, first] = await billing.events("ada")
    assert (first["product_id"], first["price_in_purchased_currency"], first["country_code"]) == (PRO, 9.99, "US")
    assert (first["environment"], first["original_transaction_id"]) == ("SANDBOX", purchase)
    assert issued["price_in_purchased_currency"] == 9.99


async def test_public_keys_see_the_product_its_price_and_no_id_that_is_a_receipt(billing: World) -> None:
    purchase = await bought(billing)
    lifetime = await bought(billing, "pro_lifetime")
    reply = await billing.client.get("/v1/subscribers/ada", key=billing.public_key)
    told = reply.json()["subscriber"]
    assert told["subscriptions"]["pro_monthly"]["product_plan_identifier"] == "price_pro_monthly"
    assert told["subscriptions"]["pro_monthly"]["store"] == "stripe"
    assert told["non_subscriptions"]["pro_lifetime"][0]["store_transaction_id"].startswith("pi_")
    for receipt in (purchase, lifetime):
        assert receipt.encode() not in reply.body


@pytest.mark.parametrize("lie", ["signature", "no_signature", "old", "altered", "scheme"])
async def test_a_lie_is_refused_and_nothing_is_stored(billing: World, lie: str) -> None:
    billing.store.misbehave(lie=1.0, lies=(lie,))
    await bought(billing)
    assert {attempt.status for message in billing.store.outbox.messages for attempt in message.attempts} == {401}
    assert await billing.journal() == []
    assert (await billing.client.get(f"/v2/projects/{PROJECT}/customers/ada")).status == 404


async def test_the_signing_secret_is_rolled_without_a_gap(billing: World) -> None:
    await bought(billing)
    assert isinstance(billing.store, StripeEmulator)
    billing.store.rotate_secret()
    # Stripe signs with both, so the old one is enough until the operator saves both.
    purchase = await bought(billing, "pro_lifetime")
    await billing.connect()
    await billing.act(purchase, "refund")
    assert await billing.types("ada") == ["INVOICE_ISSUANCE", "INITIAL_PURCHASE", "NON_RENEWING_PURCHASE", "REFUND"]


@pytest.mark.parametrize("said_in", ["metadata", "session", "reference", "customer"])
async def test_the_user_is_found_wherever_stripe_was_told(billing: World, said_in: str) -> None:
    purchase = await bought(billing, said_in=said_in)
    assert (await billing.owner(purchase)).app_user_id == "ada"


async def test_without_a_name_it_is_the_customers(billing: World) -> None:
    purchase = await bought(billing, account_token=None)
    assert (await billing.owner(purchase)).app_user_id.startswith("cus_")


async def test_a_planned_change_whose_first_payment_fails_is_told_once(billing: World) -> None:
    purchase = await bought(billing)
    await billing.act(purchase, "change", product_id="team_monthly:price_team_monthly", deferred=True)
    billing.store.act(purchase, "fail_billing")
    await billing.move(billing.now + 32 * DAY)
    await billing.settle()
    told = await billing.types("ada")
    assert (told.count("PRODUCT_CHANGE"), told.count("BILLING_ISSUE")) == (1, 1)
    await billing.act(purchase, "recover")
    told = await billing.types("ada")
    assert (told.count("PRODUCT_CHANGE"), told.count("RENEWAL"), told[-1]) == (1, 1, "RENEWAL")


async def test_the_refund_after_a_change_that_cost_nothing_tells_the_payment_that_went_back(billing: World) -> None:
    purchase = await bought(billing)
    await billing.move(billing.now + 3 * DAY)
    change = {"product_id": "team_monthly:price_team_monthly", "proration": "create_prorations"}
    await billing.act(purchase, "change", **change)
    await billing.act(purchase, "refund")
    told = [
        (event["type"], event["price_in_purchased_currency"])
        for event in await billing.events("ada")
        if event["type"] != "INVOICE_ISSUANCE"
    ]
    assert told == [("INITIAL_PURCHASE", 9.99), ("PRODUCT_CHANGE", 0), ("REFUND", 9.99)]
    assert await billing.access("ada") == set()


async def test_what_was_paid_with_credit_is_not_counted_again(billing: World) -> None:
    purchase = await bought(billing)
    await billing.move(billing.now + 3 * DAY)
    cheaper = {"product_id": "basic_monthly:price_basic_monthly", "proration": "always_invoice"}
    await billing.act(purchase, "change", **cheaper)
    await billing.move(billing.now + 30 * DAY)
    await billing.settle()
    assert isinstance(billing.store, StripeEmulator)
    paid = sum(charge.amount for charge in billing.store.books.charges.values() if charge.succeeded)
    told = [event for event in await billing.events("ada") if event["type"] != "INVOICE_ISSUANCE"]
    assert [event["type"] for event in told][-1] == "RENEWAL"
    assert round(sum(event["price_in_purchased_currency"] for event in told) * 100) == paid
    assert told[-1]["price_in_purchased_currency"] < 4.99
    await billing.act(purchase, "refund")
    last = (await billing.events("ada"))[-1]
    assert (last["type"], last["price_in_purchased_currency"]) == ("REFUND", told[-1]["price_in_purchased_currency"])


async def test_an_item_that_is_removed_ends_there(billing: World) -> None:
    assert isinstance(billing.store, StripeEmulator)
    purchase = await bought(billing, also=["team_monthly"])
    assert await billing.access("ada") == {"pro", "team"}
    await billing.move(billing.now + 3 * DAY)
    item, removed_at = billing.store.books.subscriptions[purchase].items[1], billing.now // 1000 * 1000
    await billing.act(purchase, "remove_item", item=item.id)
    told = (await billing.events("ada"))[-1]
    kept = {"pro"}
    assert (told["type"], told["expiration_reason"], set(told["entitlements"])) == ("EXPIRATION", "UNSUBSCRIBE", kept)
    assert (told["product_id"].partition(":")[2], told["expiration_at_ms"]) == (item.price, removed_at)
    assert await billing.access("ada") == kept
    # Stripe is not asked to end what is left in its place.
    gone = await subscription(billing, told["original_transaction_id"])
    assert said(await act(billing, gone, "actions/cancel")) == (422, "store_error")
    assert said(await act(billing, gone, "actions/refund")) == (422, "store_error")
    await billing.move(billing.now + 30 * DAY)
    await billing.settle()
    assert (await billing.types("ada")).count("RENEWAL") == 1
    assert await billing.access("ada") == kept
    paid = sum(charge.amount for charge in billing.store.books.charges.values() if charge.succeeded)
    money = [event for event in await billing.events("ada") if event["type"] in ("INITIAL_PURCHASE", "RENEWAL")]
    assert round(sum(event["price_in_purchased_currency"] for event in money) * 100) == paid


# One account, two apps: Stripe tells both of everything.


async def web_app(world: World) -> tuple[str, str]:
    """An app of web billing with the same account, and its public key."""
    app = await projects.create_app(world.database, PROJECT, "Web", "rc_billing", world.now)
    issued = await keys.create_public_key(world.database, PROJECT, app.id, "Web", world.now)
    given = world.store.credentials(world.served.base_url)
    await credentials.save(world.connections, PROJECT, app.id, given)
    return app.id, issued.plaintext


async def test_a_purchase_that_one_app_has_taken_in_is_not_taken_in_again_by_another(billing: World) -> None:
    _, key = await web_app(billing)
    purchase = await bought(billing)
    body = {"fetch_token": purchase, "product_id": "pro_monthly", "app_user_id": "ada"}
    assert (await billing.client.post("/v1/receipts", body, key=key)).status == 200
    assert await billing.types("ada") == ["INVOICE_ISSUANCE", "INITIAL_PURCHASE"]
    [only] = (await billing.owner(purchase)).subscriptions
    assert only.store == "stripe"


async def test_a_purchase_belongs_to_the_app_that_sold_it_as_long_as_that_app_is_connected(billing: World) -> None:
    seller, _ = await web_app(billing)
    purchase = await bought(billing, key="latchkey_app", account_token=seller)
    assert {(entry.status, entry.message) for entry in await billing.journal()} == {("ignored", OF_ANOTHER_APP)}
    assert not await billing.is_known(purchase)
    await credentials.delete(billing.connections, PROJECT, seller)
    await billing.act(purchase, "cancel")
    assert await billing.is_known(purchase)


# Receipts.


async def test_a_page_shows_the_id_of_a_subscription_or_of_a_checkout(billing: World) -> None:
    billing.store.misbehave(drop=1.0)
    purchase = await bought(billing, account_token=None, checkout=True)
    session = next(iter(billing.store.books.sessions))
    for token in (purchase, session, purchase):
        reply = await shown(billing, token)
        assert reply.status == 200, reply
    assert await billing.access("ada") == {"pro"}
    assert await billing.types("ada") == ["INVOICE_ISSUANCE", "INITIAL_PURCHASE"]


@pytest.mark.parametrize(
    "token",
    [
        "sub_1AAAAAAAAAAAAAAAAAAAAAAA",
        "cs_test_a1AAAAAAAAAAAA",
        "cus_1AAAAAAAAAAA",
        "in_1AAAAAAAAAAAAA",
        "x",
        "sub_1/x",
    ],
)
async def test_what_stripe_does_not_know_is_no_receipt(billing: World, token: str) -> None:
    reply = await shown(billing, token, "eve")
    assert (reply.status, reply.json()["code"]) == (400, 7103)
    assert (await billing.client.get(f"/v2/projects/{PROJECT}/customers/eve")).status == 404


async def test_the_id_of_another_account_is_no_receipt(billing: World) -> None:
    """Its API key does not find it."""
    purchase = await bought(billing)
    one = billing.store.books.subscriptions.pop(purchase)
    assert (await shown(billing, one.id, "eve")).json()["code"] == 7103


async def test_a_checkout_that_is_not_paid_gives_nothing(billing: World) -> None:
    purchase = billing.store.sell(product_id="pro_monthly", buyer="ada", account_token="ada", incomplete=True)
    assert (await shown(billing, purchase)).status == 200
    await billing.settle()
    assert await billing.access("ada") == set()
    await billing.act(purchase, "pay")
    assert await billing.access("ada") == {"pro"}


# What was lost.


async def test_what_was_sent_during_an_outage_is_read_from_stripes_list(billing: World) -> None:
    await billing.processor.read_histories()
    billing.store.misbehave(drop=1.0)
    purchase = await bought(billing)
    await billing.act(purchase, "cancel")
    assert await billing.journal() == []
    billing.store.behave()
    await billing.move(billing.now + 2 * DAY)
    await billing.processor.read_histories()
    await billing.process()
    assert await billing.types("ada") == ["INVOICE_ISSUANCE", "INITIAL_PURCHASE", "CANCELLATION"]


# A life with everything in it.


async def test_a_trial_a_failed_payment_an_upgrade_and_the_end(billing: World) -> None:
    purchase = await bought(billing, trial=True)
    await billing.move(billing.now + 8 * DAY)
    billing.store.act(purchase, "fail_billing", then="unpaid")
    await billing.move(billing.now + 31 * DAY)
    assert await billing.access("ada") == {"pro"}, "while Stripe tries again"
    await billing.act(purchase, "recover")
    await billing.act(purchase, "change", product_id="team_monthly")
    await billing.act(purchase, "refund")
    assert await billing.types("ada") == [
        "TRIAL_STARTED",
        "INVOICE_ISSUANCE",
        "INITIAL_PURCHASE",
        "INVOICE_ISSUANCE",
        "BILLING_ISSUE",
        "RENEWAL",
        "INVOICE_ISSUANCE",
        "PRODUCT_CHANGE",
        "REFUND",
    ]


async def test_each_item_is_a_subscription_of_its_own(billing: World) -> None:
    purchase = await bought(billing, also=["team_monthly"])
    customer = await billing.owner(purchase)
    assert sorted(subscription.current.product_id.partition(":")[0] for subscription in customer.subscriptions) == [
        "pro_monthly",
        "team_monthly",
    ]
    paid = sum(subscription.current.price.micros for subscription in customer.subscriptions)
    assert paid == 39_980_000
    await billing.act(purchase, "refund")
    assert (await billing.types("ada")).count("REFUND") == 2


@pytest.mark.parametrize(
    ("currency", "price", "micros"),
    [("JPY", 1200, 1_200_000_000), ("KWD", 3.125, 3_125_000), ("ISK", 990, 990_000_000)],
)
async def test_amounts_of_every_currency(billing: World, currency: str, price: float, micros: int) -> None:
    billing.store.add_product({"id": "abroad", "period": "P1M", "price": price, "currency": currency})
    purchase = await bought(billing, "abroad")
    await billing.act(purchase, "refund", amount=price / 5)
    [period] = (await billing.owner(purchase)).subscriptions[0].periods
    assert (period.price.micros, period.price.currency, period.given_back) == (micros, currency, micros // 5)


# What Stripe is asked to do.


async def test_stripe_cancels_extends_and_refunds(billing: World) -> None:
    purchase = await bought(billing)
    found = await subscription(billing, purchase)
    ends_at: Ms = billing.store.known(purchase).ends_at or 0
    extended = {"extend_by_days": 10, "extend_reason_code": 3}
    [period] = (await billing.owner(purchase)).subscriptions[0].periods
    reply = await billing.client.post(f"/v1/subscribers/ada/subscriptions/{period.id}/extend", extended)
    assert reply.status == 200, reply
    assert billing.store.known(purchase).ends_at == ends_at + 10 * DAY
    reply = await act(billing, found, "actions/cancel")
    assert (reply.status, reply.json()["auto_renewal_status"]) == (200, "will_not_renew")
    assert not billing.store.known(purchase).auto_renew
    reply = await act(billing, found, "actions/refund")
    assert (reply.status, reply.json()["gives_access"]) == (200, False)
    assert [charge.amount_refunded for charge in billing.store.books.charges.values()] == [999]
    assert not billing.store.known(purchase).active
    await billing.settle()
    assert await billing.types("ada") == [
        "INVOICE_ISSUANCE",
        "INITIAL_PURCHASE",
        "SUBSCRIPTION_EXTENDED",
        "CANCELLATION",
        "REFUND",
    ]
    assert said(await act(billing, found, "actions/cancel"))[0] == 422


async def test_stripe_refunds_a_one_time_purchase(billing: World) -> None:
    purchase = await bought(billing, "pro_lifetime")
    found = await one_time(billing, billing.store.known(purchase).id)
    reply = await act(billing, found, "actions/refund")
    assert (reply.status, reply.json()["status"]) == (200, "refunded")
    assert await billing.types("ada") == ["NON_RENEWING_PURCHASE", "REFUND"]


async def test_what_stripe_cannot_do_is_refused_and_changes_nothing(billing: World) -> None:
    purchase = await bought(billing, also=["team_monthly"])
    found = await subscription(billing, purchase)
    for action in ("actions/cancel", "actions/refund"):
        assert said(await act(billing, found, action)) == (422, "store_error")
    billing.store.misbehave(api=DOWN)
    assert said(await act(billing, found, "actions/cancel")) == (503, "server_error")
    assert sorted(await billing.types("ada")) == ["INITIAL_PURCHASE", "INITIAL_PURCHASE", "INVOICE_ISSUANCE"]
