"""`/rcbilling/v1/checkout`: what a page cannot do. Its key is public: strangers may try all of this."""

from typing import Any

import pytest

from latchkey.domain.instants import DAY
from latchkey.stores.errors import ActionRefused, CredentialsRefused, StoreDown
from tests.http.client import Shop
from tests.http.management import delete, post
from tests.http.till import Page, opened_page

BROWSER = {"origin": "https://shop.example"}


@pytest.fixture
async def hosted(shop: Shop) -> Page:
    return await opened_page(shop, "stripe")


@pytest.fixture
async def form(shop: Shop) -> Page:
    return await opened_page(shop, "rc_billing")


def refused(reply: Any, status: int, code: int) -> str:
    assert (reply.status, reply.json()["code"]) == (status, code), reply
    assert set(reply.json()) == {"code", "message"}
    message: str = reply.json()["message"]
    return message


async def test_a_browser_may_read_every_refusal(hosted: Page) -> None:
    reply = await hosted.ask("GET", "checkout/lkc_nothing", headers=BROWSER)
    refused(reply, 404, 7877)
    assert reply.headers["access-control-allow-origin"] == "*"


async def test_no_other_price_of_a_product_can_be_asked_for(hosted: Page) -> None:
    """The catalog finds `pro_yearly:anything` too, for what stores tell. A page must not choose among the prices that
    the provider has ever had."""
    for product_id in ("pro_yearly:price_of_last_year", "pro_yearly:", "nothing", "price_1"):
        refused(await hosted.start(product_id=product_id), 422, 7814)
    assert hosted.provider.orders == []
    # What else the page says of the price is not used.
    assert (await hosted.start(price_id="price_cheap", price=0.01, offer_id="half", quantity=0)).status == 200
    assert hosted.provider.orders[0].price.micros == 79_990_000


async def test_a_product_that_is_not_on_sale_in_this_app_is_not_sold(hosted: Page, shop: Shop) -> None:
    await delete(shop, "products/coins_100")
    other = {"store_identifier": "theirs", "app_id": "app_demo", "type": "consumable", "title": "Theirs"}
    assert (await post(shop, "products", other)).status == 201
    for product_id in ("coins_100", "theirs"):
        refused(await hosted.start(product_id=product_id), 422, 7814)


async def test_what_was_taken_off_sale_meanwhile_is_not_completed(form: Page, shop: Shop) -> None:
    id = await form.started(product_id="coins_100")
    await delete(shop, "products/coins_100")
    refused(await form.ask("POST", f"checkout/{id}/complete", {}), 422, 7814)
    assert form.provider.payments == {}


async def test_who_has_it_is_not_sold_it_again(form: Page) -> None:
    id = await form.started()
    await form.ask("POST", f"checkout/{id}/complete", {})
    form.provider.pays("pay_1")
    await form.status(id)
    refused(await form.start(), 422, 7772)
    refused(await form.ask("POST", f"checkout/{id}/complete", {}), 422, 7772)
    # When it is over, it can be bought again.
    form.shop.clock.now += 400 * DAY
    assert (await form.start()).status == 200


async def test_a_checkout_is_known_to_its_app_alone(shop: Shop, hosted: Page) -> None:
    id = await hosted.started()
    hosted.provider.pays("pay_1")
    new = {"name": "Second", "store": "stripe"}
    stranger = (await post(shop, "apps", new)).json()["public_api_key"]["key"]
    other = await opened_page(shop, "rc_billing")
    for key in (other.key, shop.public, shop.secret, stranger):
        answer = await hosted.ask("GET", f"checkout/{id}", key=key)
        assert (answer.status, answer.json()["code"]) in ((404, 7877), (422, 7000))
        assert (await hosted.ask("POST", f"checkout/{id}/complete", {}, key=key)).status in (404, 422)
        assert (await hosted.ask("PATCH", f"checkout/{id}", {}, key=key)).status in (404, 422)
    assert hosted.provider.asked == 0
    assert (await hosted.status(id))["status"] == "succeeded"


async def test_an_id_cannot_be_guessed_and_no_table_holds_it(hosted: Page) -> None:
    id = await hosted.started()
    assert len(id) >= 40
    row = await hosted.shop.database.pool.fetchrow("select checkouts::text as whole from checkouts")
    assert row is not None
    assert id not in row["whole"]


@pytest.mark.parametrize("method", ["PATCH", "POST"])
async def test_an_expired_checkout_does_not_go_on(form: Page, method: str) -> None:
    id = await form.started()
    form.shop.clock.now += DAY
    path = f"checkout/{id}" + ("/complete" if method == "POST" else "")
    refused(await form.ask(method, path, {}), 404, 7877)
    assert form.provider.payments == {}


async def test_the_page_of_the_provider_is_not_completed_by_us(hosted: Page) -> None:
    id = await hosted.started()
    refused(await hosted.ask("POST", f"checkout/{id}/complete", {}), 422, 7878)
    refused(await hosted.ask("POST", "checkout/prepare", {"product_id": "pro_yearly"}), 422, 7878)


async def test_a_change_of_a_subscription_and_shortcuts_are_refused_as_the_sdk_understands(hosted: Page) -> None:
    change = {"subscription_id": "sub_of_somebody", "from_product_id": "pro_yearly"}
    refused(await hosted.start(product_change=change), 422, 7878)
    refused(await hosted.start(purchase_flow="apple_pay"), 422, 8172)
    id = await hosted.started()
    refused(await hosted.ask("PATCH", f"checkout/{id}", {"discount_code": "FREE"}), 422, 7814)


@pytest.mark.parametrize("email", ["nobody", "@", "a@", "a@b@c", "a\r\nb@c", "x" * 300 + "@example.com"])
async def test_an_email_that_cannot_be_is_refused_and_the_sdk_asks_for_another(form: Page, email: str) -> None:
    refused(await form.start(email=email), 400, 7012)
    id = await form.started()
    refused(await form.ask("POST", f"checkout/{id}/complete", {"email": email}), 400, 7012)


async def test_fields_that_are_not_used_may_be_anything(form: Page) -> None:
    odd: dict[str, Any] = {"metadata": "x", "trace_id": None, "product_change": None, "paywall": 1, "later": []}
    assert (await form.start(**odd, email="", locale="")).status == 200
    assert form.provider.orders[0].email is None


@pytest.mark.parametrize(
    "body", [{}, {"app_user_id": "ada"}, {"product_id": "pro_yearly"}, {"app_user_id": "null", "product_id": "x"}]
)
async def test_without_a_user_and_a_product_nothing_starts(hosted: Page, body: Any) -> None:
    assert (await hosted.ask("POST", "checkout/start", body)).status == 400


async def test_what_the_provider_says_against_it_is_not_shown_to_visitors(hosted: Page) -> None:
    hosted.provider.trouble = ActionRefused("The price of prod_secret is archived.")
    assert "prod_secret" not in refused(await hosted.start(), 422, 7000)
    hosted.provider.trouble = CredentialsRefused("Stripe refuses the api_key (401).")
    assert "api_key" not in refused(await hosted.start(), 422, 7000)
    hosted.provider.trouble = StoreDown("Stripe answered 500.", 4_000)
    reply = await hosted.start()
    assert (reply.status, reply.json()["code"], reply.headers["retry-after"]) == (503, 7101, "10")


async def test_a_secret_key_belongs_to_no_app_and_an_app_needs_a_provider(shop: Shop, hosted: Page) -> None:
    body = {"app_user_id": "ada", "product_id": "pro_yearly"}
    for key in (shop.secret, shop.public):
        assert "payment provider" in refused(await hosted.ask("POST", "checkout/start", body, key=key), 422, 7000)
    refused(await hosted.ask("GET", "branding", key=shop.secret), 422, 7000)


async def test_one_address_or_user_cannot_begin_checkouts_without_end(form: Page) -> None:
    for _ in range(20):
        assert (await form.start("ada")).status == 200
    reply = await form.start("ada")
    assert (reply.status, reply.json()["code"]) == (429, 7638)
    assert int(reply.headers["retry-after"]) <= 60
    for n in range(99):
        assert (await form.start(f"user {n}")).status == 200
    assert (await form.start("another")).status == 429
    form.shop.client.address = "192.0.2.7"
    assert (await form.start("ada")).status == 200
