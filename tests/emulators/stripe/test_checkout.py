"""How customers pay at the Stripe emulator: the hosted page, the embedded page and elements of Stripe.js."""

import asyncio
from typing import Any

import pytest
import requests
import stripe

from tests.emulators.stripe.conftest import Desk

DECLINED = "pm_card_chargeDeclined"


def embedded(**more: Any) -> Any:
    return {
        "mode": "subscription",
        "ui_mode": "embedded_page",
        "redirect_on_completion": "never",
        "line_items": [{"price": "price_pro_monthly", "quantity": 1}],
        "metadata": {"app_user_id": "ada"},
        "client_reference_id": "ada",
        "subscription_data": {"metadata": {"app_user_id": "ada"}},
        **more,
    }


async def as_page(desk: Desk, path: str, **form: Any) -> tuple[int, Any]:
    """As Stripe.js asks, from a page of anybody."""
    form = {"key": desk.store.keys.publishable_key, **form}
    headers = {"Origin": "https://shop.example"}
    reply = await asyncio.to_thread(requests.post, f"{desk.url}{path}", data=form, headers=headers)
    assert reply.headers["access-control-allow-origin"] == "*"
    return reply.status_code, reply.json()


async def test_an_embedded_session_is_paid_by_the_page_and_makes_the_subscription(desk: Desk) -> None:
    made = await desk.ask(lambda v1: v1.checkout.sessions.create(embedded()))
    assert (made.status, made.payment_status, made.url, made.subscription) == ("open", "unpaid", None, None)
    path, secret = f"/v1/payment_pages/{made.id}", made.client_secret
    status, shown = await as_page(desk, f"{path}/init", client_secret=secret)
    assert (status, shown["name"], shown["total"], shown["free"]) == (200, "pro_monthly", "9.99", False)
    status, said = await as_page(desk, f"{path}/confirm", client_secret=secret, payment_method=DECLINED)
    assert (status, said["error"]["code"]) == (402, "card_declined")
    status, _ = await as_page(desk, f"{path}/confirm", client_secret=secret, email="ada@example.com")
    assert status == 200
    wanted = {"expand": ["line_items", "customer", "subscription"]}
    paid = await desk.ask(lambda v1: v1.checkout.sessions.retrieve(made.id, wanted))
    assert (paid.status, paid.payment_status, paid.client_secret) == ("complete", "paid", None)
    assert (paid.subscription.status, paid.subscription.metadata["app_user_id"]) == ("active", "ada")
    assert (paid.customer.email, paid.line_items.data[0].price.id) == ("ada@example.com", "price_pro_monthly")
    of = await desk.ask(lambda v1: v1.checkout.sessions.list({"subscription": paid.subscription.id}))
    assert [item.id for item in of.data] == [made.id]
    assert (await as_page(desk, f"{path}/confirm", client_secret=secret))[0] == 400


async def test_a_session_can_begin_with_a_trial_or_be_for_one_payment(desk: Desk) -> None:
    body = embedded(subscription_data={"trial_period_days": 14})
    trial = await desk.ask(lambda v1: v1.checkout.sessions.create(body))
    _, shown = await as_page(desk, f"/v1/payment_pages/{trial.id}/confirm", client_secret=trial.client_secret)
    assert shown["free"] is True
    assert [state.in_trial for state in desk.store.expected_states()] == [True]
    once = embedded(
        mode="payment",
        line_items=[{"price": "price_coins_100", "quantity": 2}],
        payment_intent_data={"metadata": {"app_user_id": "ada"}},
        customer_creation="always",
    )
    made = await desk.ask(lambda v1: v1.checkout.sessions.create(once))
    await as_page(desk, f"/v1/payment_pages/{made.id}/confirm", client_secret=made.client_secret)
    paid = await desk.ask(lambda v1: v1.checkout.sessions.retrieve(made.id, {"expand": ["payment_intent"]}))
    assert (paid.payment_intent.amount_received, paid.payment_intent.metadata["app_user_id"]) == (398, "ada")
    assert paid.customer is not None


async def test_the_hosted_page_takes_payment_and_sends_the_customer_back(desk: Desk) -> None:
    body: Any = {
        "mode": "payment",
        "line_items": [{"price": "price_pro_lifetime", "quantity": 1}],
        "success_url": "https://shop.example/thanks?session={CHECKOUT_SESSION_ID}",
        "cancel_url": "javascript:alert(1)",
    }
    made = await desk.ask(lambda v1: v1.checkout.sessions.create(body))
    assert made.url.startswith(f"{desk.url}/pay/{made.id}")
    page = await asyncio.to_thread(requests.get, made.url)
    assert (page.status_code, "$199.99" in page.text, "javascript:" in page.text) == (200, True, False)
    declined = await asyncio.to_thread(requests.post, made.url, data={"payment_method": DECLINED})
    assert (declined.status_code, "declined" in declined.text) == (402, True)
    assert f"href='/pay/{made.id}'>Try again" in declined.text
    paid = await asyncio.to_thread(requests.post, made.url, allow_redirects=False)
    assert (paid.status_code, paid.headers["location"]) == (303, f"https://shop.example/thanks?session={made.id}")
    assert (await asyncio.to_thread(requests.get, made.url)).status_code == 410
    assert [state.active for state in desk.store.expected_states()] == [True]


async def test_the_hosted_page_offers_a_trial_as_one_and_says_when_it_is_over(desk: Desk) -> None:
    body: Any = {
        "mode": "subscription",
        "line_items": [{"price": "price_pro_monthly", "quantity": 1}],
        "subscription_data": {"trial_period_days": 7},
        "success_url": "app://thanks",
    }
    made = await desk.ask(lambda v1: v1.checkout.sessions.create(body))
    page = await asyncio.to_thread(requests.get, made.url)
    assert ("Start trial</button>" in page.text, "Pay</button>" in page.text) == (True, False)
    paid = await asyncio.to_thread(requests.post, made.url)
    assert "You can close this page." in paid.text
    again = await asyncio.to_thread(requests.get, made.url)
    assert (again.status_code, "This checkout is complete" in again.text) == (410, True)
    unknown = await asyncio.to_thread(requests.get, f"{desk.url}/pay/cs_none")
    assert (unknown.status_code, "Try again" in unknown.text) == (404, False)


async def test_an_incomplete_subscription_is_paid_with_its_confirmation_secret(desk: Desk) -> None:
    customer = await desk.ask(lambda v1: v1.customers.create({}))
    body: Any = {
        "customer": customer.id,
        "items": [{"price": "price_pro_monthly"}],
        "payment_behavior": "default_incomplete",
        "expand": ["latest_invoice.confirmation_secret", "pending_setup_intent"],
    }
    made = await desk.ask(lambda v1: v1.subscriptions.create(body))
    assert (made.status, made.pending_setup_intent) == ("incomplete", None)
    secret = made.latest_invoice.confirmation_secret.client_secret
    intent = secret.partition("_secret_")[0]
    path = f"/v1/payment_intents/{intent}"
    status, said = await as_page(desk, f"{path}/confirm", client_secret=secret, payment_method=DECLINED)
    assert (status, said["error"]["type"], said["error"]["decline_code"]) == (402, "card_error", "generic_decline")
    failed = await desk.ask(lambda v1: v1.payment_intents.retrieve(intent))
    assert (failed.status, failed.last_payment_error.code) == ("requires_payment_method", "card_declined")
    status, said = await as_page(desk, f"{path}/confirm", client_secret=secret, payment_method="pm_card_visa")
    assert (status, said["status"]) == (200, "succeeded")
    paid = await desk.ask(lambda v1: v1.subscriptions.retrieve(made.id, {"expand": body["expand"]}))
    assert (paid.status, paid.latest_invoice.confirmation_secret) == ("active", None)


async def test_a_trial_is_confirmed_with_a_setup_intent(desk: Desk) -> None:
    customer = await desk.ask(lambda v1: v1.customers.create({}))
    body: Any = {
        "customer": customer.id,
        "items": [{"price": "price_pro_monthly"}],
        "trial_period_days": 7,
        "payment_behavior": "default_incomplete",
        "expand": ["pending_setup_intent"],
    }
    made = await desk.ask(lambda v1: v1.subscriptions.create(body))
    setup = made.pending_setup_intent
    assert (made.status, setup.status) == ("trialing", "requires_payment_method")
    path = f"/v1/setup_intents/{setup.id}/confirm"
    status, said = await as_page(desk, path, client_secret=setup.client_secret)
    assert (status, said["status"]) == (200, "succeeded")
    again = await desk.ask(lambda v1: v1.subscriptions.retrieve(made.id))
    assert again.pending_setup_intent is None


async def test_a_page_reaches_only_the_object_whose_secret_it_has(desk: Desk) -> None:
    one, other = [
        await desk.ask(lambda v1: v1.payment_intents.create({"amount": 500, "currency": "eur"})) for _ in range(2)
    ]
    path = f"/v1/payment_intents/{one.id}/confirm"
    assert (await as_page(desk, path, client_secret=other.client_secret))[0] == 404
    assert (await as_page(desk, path))[0] == 404
    assert (await as_page(desk, path, client_secret=one.client_secret, key="pk_test_guess"))[0] == 401
    reply = await asyncio.to_thread(
        requests.get, f"{desk.url}/v1/subscriptions", params={"key": desk.store.keys.publishable_key}
    )
    assert reply.status_code == 401
    assert (await as_page(desk, path, client_secret=one.client_secret))[0] == 200


WRONG: list[dict[str, Any]] = [
    {"mode": "other"},
    {"ui_mode": "embedded"},
    {"line_items": []},
    {"line_items": [{"price": "price_none"}]},
    {"mode": "payment"},
    {"line_items": [{"price": "price_coins_100"}]},
    {"redirect_on_completion": "always"},
    {"customer": "cus_none"},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
async def test_a_wrong_session_is_refused(desk: Desk, wrong: dict[str, Any]) -> None:
    with pytest.raises(stripe.InvalidRequestError) as error:
        await desk.ask(lambda v1: v1.checkout.sessions.create(embedded(**wrong)))
    assert error.value.http_status == 400


async def test_a_session_nobody_pays_expires(desk: Desk) -> None:
    made = await desk.ask(lambda v1: v1.checkout.sessions.create(embedded()))
    await desk.store.move(made.expires_at * 1000)
    assert (await desk.ask(lambda v1: v1.checkout.sessions.retrieve(made.id))).status == "expired"
    assert desk.store.expected_states() == []


async def test_the_stand_in_for_stripe_js_knows_where_it_came_from(desk: Desk) -> None:
    for path, version in (("/dahlia/stripe.js", "dahlia"), ("/v3/", "v3")):
        reply = await asyncio.to_thread(requests.get, f"{desk.url}{path}")
        assert reply.headers["content-type"].startswith("text/javascript")
        assert f'const api = "{desk.url}"' in reply.text
        assert f'Stripe.version = "{version}"' in reply.text
