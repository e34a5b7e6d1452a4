"""`/rcbilling/v1/checkout`: a web page sells through a payment provider, from the start to the purchase."""

from typing import Any

import pytest

from latchkey.domain.instants import DAY, MINUTE
from latchkey.stores.errors import CredentialsRefused, StoreDown
from latchkey.stores.selling import CheckoutState
from latchkey.subjects.checkout.usecases.checkouts import KEPT, prune
from latchkey.subjects.purchase_intake.usecases import store_connections as credentials
from latchkey.subjects.purchase_intake.usecases.batched_lookups import BatchedLookups
from latchkey.subjects.purchase_intake.usecases.purchase_intake import Taker
from tests.http.client import NOW, Shop
from tests.http.doings import subscriber, types_told
from tests.http.management import get, post
from tests.http.till import Page, opened_page, services_of

BUYER = "ada@example.com"
# Which offering a page says that it showed.
CLAIM = "presented_offering_identifier"


@pytest.fixture
async def hosted(shop: Shop) -> Page:
    return await opened_page(shop, "stripe")


@pytest.fixture
async def form(shop: Shop) -> Page:
    details = {"app_name": "Notes", "support_email": "help@example.com", "stripe_account_id": "acct_named"}
    return await opened_page(shop, "rc_billing", details)


async def test_the_look_is_the_apps_name_and_its_address_for_help(hosted: Page, form: Page) -> None:
    plain = (await hosted.ask("GET", "branding")).json()
    assert (plain["id"], plain["app_name"], plain["support_email"]) == (hosted.app_id, "Web shop", None)
    assert plain["gateway_tax_collection_enabled"] is False
    assert {plain[name] for name in ("app_icon", "app_wordmark", "appearance", "brand_font_config")} == {None}
    named = (await form.ask("GET", "branding")).json()
    assert (named["app_name"], named["support_email"]) == ("Notes", "help@example.com")


async def test_the_providers_page_is_paid_and_access_is_there_with_the_answer(hosted: Page) -> None:
    reply = await hosted.start(email=BUYER, locale="de", price_id="price_pro_yearly")
    assert reply.status == 200
    body = reply.json()
    assert body["checkout_mode"] == "purchase"
    assert body["stripe_billing_params"] == {
        "client_secret": "pay_1_secret",
        "environment": "sandbox",
        "publishable_api_key": "pk_test_12345678",
        "stripe_account_id": "acct_1",
    }
    [order] = hosted.provider.orders
    assert (order.app_user_id, order.product_id, order.subscription) == ("ada", "pro_yearly", True)
    assert (order.email, order.locale, order.price.micros) == (BUYER, "de", 79_990_000)
    id = body["operation_session_id"]
    assert await hosted.status(id) == {
        "status": "started",
        "is_expired": False,
        "error": None,
        "redemption_info": None,
    }
    hosted.provider.standing["pay_1"] = CheckoutState.PENDING
    assert (await hosted.status(id))["status"] == "in_progress"
    assert (await hosted.shop.v2("ada")).status == 404
    hosted.provider.pays("pay_1")
    assert await hosted.status(id) == {
        "status": "succeeded",
        "is_expired": False,
        "error": None,
        "redemption_info": None,
        "store_transaction_identifier": "pay_1.1",
        "product_identifier": "pro_yearly",
        "purchase_date": "2027-01-15T08:00:00Z",
    }
    info = await subscriber(hosted.shop)
    assert info["entitlements"]["pro"]["product_identifier"] == "pro_yearly"
    assert await types_told(hosted.shop) == ["INITIAL_PURCHASE"]


async def test_a_form_is_shown_then_its_payment_is_made_and_confirmed(form: Page) -> None:
    body = (await form.start()).json()
    assert body["stripe_billing_params"] is None
    assert body["gateway_params"] == {
        "stripe_account_id": "acct_1",
        "publishable_api_key": "pk_test_12345678",
        "elements_configuration": {
            "mode": "payment",
            "payment_method_types": ["card"],
            "setup_future_usage": "off_session",
            "amount": 7999,
            "currency": "usd",
        },
    }
    assert form.provider.accounts == ["acct_named"]
    id = body["operation_session_id"]
    # Before there is a payment, nobody is asked for one.
    assert ((await form.status(id))["status"], form.provider.asked) == ("started", 0)
    refreshed = (await form.ask("PATCH", f"checkout/{id}", {"country_code": "DE", "discount_code": None})).json()
    assert (refreshed["total_amount_in_micros"], refreshed["tax_amount_in_micros"]) == (79_990_000, 0)
    assert refreshed["failed_reason"] == "tax_collection_disabled"
    assert refreshed["gateway_params"]["elements_configuration"]["amount"] == 7999
    completed = await form.ask("POST", f"checkout/{id}/complete", {"email": BUYER, "locale": "en"})
    assert completed.json() == {
        "operation_session_id": id,
        "checkout_mode": "purchase",
        "gateway_params": {"client_secret": "pay_1_secret"},
    }
    assert form.provider.orders[-1].email == BUYER
    form.provider.pays("pay_1")
    assert (await form.status(id))["status"] == "succeeded"
    assert "pro" in (await subscriber(form.shop))["entitlements"]


async def test_a_one_time_product_is_sold_too(form: Page) -> None:
    id = await form.started(product_id="coins_100")
    assert not form.provider.orders[0].subscription
    await form.ask("POST", f"checkout/{id}/complete", {})
    form.provider.pays("pay_1")
    assert (await form.status(id))["store_transaction_identifier"] == "pay_1"
    assert "coins_100" in (await subscriber(form.shop))["non_subscriptions"]
    # What is used up can be bought again.
    assert (await form.start(product_id="coins_100")).status == 200


async def test_a_button_beside_the_checkout_is_prepared_without_creating_anything(form: Page) -> None:
    reply = await form.ask("POST", "checkout/prepare", {"product_id": "pro_yearly", "price_id": "x"})
    assert reply.json()["stripe_gateway_params"]["elements_configuration"]["amount"] == 7999
    assert (form.provider.orders, form.provider.payments) == ([], {})


async def test_completing_twice_is_one_payment(form: Page) -> None:
    id = await form.started()
    first = await form.ask("POST", f"checkout/{id}/complete", {"email": BUYER})
    again = await form.ask("POST", f"checkout/{id}/complete", {"email": "other@example.com"})
    assert first.json() == again.json()
    assert list(form.provider.payments) == ["pay_1"]


async def test_starting_twice_gives_two_checkouts_that_know_nothing_of_each_other(form: Page) -> None:
    one, other = await form.started(), await form.started()
    assert one != other
    await form.ask("POST", f"checkout/{one}/complete", {})
    form.provider.pays("pay_1")
    assert (await form.status(one))["status"] == "succeeded"
    assert (await form.status(other))["status"] == "started"
    # The second one cannot be paid any more: the user has it.
    refused = await form.ask("POST", f"checkout/{other}/complete", {})
    assert (refused.status, refused.json()["code"]) == (422, 7772)


async def test_who_pays_twice_on_two_pages_has_two_subscriptions_on_record(hosted: Page) -> None:
    one, other = await hosted.started(), await hosted.started()
    for handle in ("pay_1", "pay_2"):
        hosted.provider.pays(handle)
    for id in (one, other):
        assert (await hosted.status(id))["status"] == "succeeded"
    assert await types_told(hosted.shop) == ["INITIAL_PURCHASE", "INITIAL_PURCHASE"]


async def test_asking_again_and_the_providers_late_notification_change_nothing(hosted: Page) -> None:
    id = await hosted.started()
    hosted.provider.pays("pay_1")
    first = await hosted.status(id)
    asked = hosted.provider.asked
    assert await hosted.status(id) == first
    assert hosted.provider.asked == asked
    stores = services_of(hosted.shop).stores
    app = await stores.of_app(hosted.shop.project_id, hosted.app_id)
    assert app is not None
    taker = Taker(hosted.shop.changes, BatchedLookups(hosted.shop.database), stores.adapters["stripe"], app)
    [taken] = await taker.take(hosted.provider.reading(app, "pay_1"), NOW + 5_000)
    assert (taken.committed.customer.app_user_id, taken.committed.events) == ("ada", ())
    assert await types_told(hosted.shop) == ["INITIAL_PURCHASE"]


async def test_a_purchase_that_cannot_be_read_yet_is_in_progress_and_never_lost(hosted: Page) -> None:
    id = await hosted.started()
    hosted.provider.pays("pay_1")
    hosted.provider.receipts_down = True
    assert (await hosted.status(id))["status"] == "in_progress"
    [entry] = (await get(hosted.shop, "store_notifications")).json()["items"]
    assert (entry["source"], entry["status"]) == ("receipt", "waiting")
    hosted.provider.receipts_down = False
    assert (await hosted.status(id))["status"] == "succeeded"


async def test_an_anonymous_buyer_takes_the_purchase_along_when_logging_in(hosted: Page) -> None:
    anonymous = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
    id = await hosted.started(anonymous)
    # Logged in on the way, before it was paid.
    identify = {"app_user_id": anonymous, "new_app_user_id": "ada"}
    assert (await hosted.shop.client.get(f"/v1/subscribers/{anonymous}", key=hosted.key)).status == 201
    assert (await hosted.shop.client.post("/v1/subscribers/identify", identify, key=hosted.key)).status == 201
    hosted.provider.pays("pay_1")
    assert (await hosted.status(id))["status"] == "succeeded"
    assert "pro" in (await subscriber(hosted.shop))["entitlements"]


@pytest.mark.parametrize("standing", [CheckoutState.FAILED, CheckoutState.EXPIRED])
async def test_what_was_not_paid_is_failed_for_good(hosted: Page, standing: CheckoutState) -> None:
    id = await hosted.started()
    hosted.provider.standing["pay_1"] = standing
    expired = standing is CheckoutState.EXPIRED
    answer = await hosted.status(id)
    assert (answer["status"], answer["is_expired"], answer["error"]["code"]) == ("failed", expired, 4 if expired else 3)
    assert "store_transaction_identifier" not in answer
    asked = hosted.provider.asked
    assert ((await hosted.status(id))["status"], hosted.provider.asked) == ("failed", asked)


async def test_a_form_that_nobody_pays_is_over_after_a_day(form: Page) -> None:
    id = await form.started()
    form.shop.clock.now += DAY
    answer = await form.status(id)
    assert (answer["status"], answer["is_expired"], answer["error"]["code"]) == ("failed", True, 4)


async def trial(shop: Shop) -> None:
    new = {"id": "gold", "kind": "subscription", "duration": "P1M", "price": 5, "currency": "EUR"}
    assert (await post(shop, "products", {**new, "trial_duration": "P2W"})).status == 201


async def test_a_trial_is_given_once_and_shown_once(form: Page) -> None:
    await trial(form.shop)

    async def shown() -> Any:
        [gold] = (await form.ask("GET", "subscribers/ada/products?id=gold")).json()["product_details"]
        return gold["purchase_options"]["base_option"]["trial"]

    assert (await shown())["period_duration"] == "P2W"
    body = (await form.start(product_id="gold")).json()
    assert body["gateway_params"]["elements_configuration"]["mode"] == "setup"
    assert "amount" not in body["gateway_params"]["elements_configuration"]
    assert form.provider.orders[0].trial_days == 14
    id = body["operation_session_id"]
    await form.ask("POST", f"checkout/{id}/complete", {})
    form.provider.pays("pay_1")
    assert (await form.status(id))["status"] == "succeeded"
    form.shop.clock.now += 40 * DAY
    assert await shown() is None
    assert (await form.start(product_id="gold")).json()["gateway_params"]["elements_configuration"]["amount"] == 500
    assert form.provider.orders[-1].trial_days is None


async def test_an_erased_customer_leaves_no_checkout_behind(hosted: Page) -> None:
    id = await hosted.started()
    await hosted.shop.v1("ada", key=hosted.key)
    assert (await hosted.shop.client.request("DELETE", "/v1/subscribers/ada")).status == 200
    assert (await hosted.ask("GET", f"checkout/{id}")).status == 404


async def test_a_page_that_asks_without_end_does_not_make_the_provider_work(hosted: Page) -> None:
    id = await hosted.started()
    hosted.provider.standing["pay_1"] = CheckoutState.PENDING
    for _ in range(95):
        assert (await hosted.status(id))["status"] == "in_progress"
    assert hosted.provider.asked == 90
    hosted.shop.clock.now += MINUTE
    hosted.provider.pays("pay_1")
    assert (await hosted.status(id))["status"] == "succeeded"


async def test_who_closes_the_page_after_paying_has_access_all_the_same(form: Page) -> None:
    """The provider tells nobody of this payment, so it is asked in the background."""
    form.provider.tells = False
    checkouts, clock = services_of(form.shop).checkouts, form.shop.clock
    id = await form.started()
    await form.ask("POST", f"checkout/{id}/complete", {})
    assert await checkouts.ask_due() == 0
    clock.now += MINUTE
    assert (await checkouts.ask_due(), await checkouts.ask_due()) == (1, 0)
    form.provider.pays("pay_1")
    clock.now += MINUTE
    assert await checkouts.ask_due() == 1
    assert "pro" in (await subscriber(form.shop))["entitlements"]
    clock.now += DAY
    assert await checkouts.ask_due() == 0


async def test_a_payment_that_never_comes_is_asked_for_less_and_less_often(form: Page) -> None:
    form.provider.tells = False
    checkouts, clock = services_of(form.shop).checkouts, form.shop.clock
    id = await form.started()
    await form.ask("POST", f"checkout/{id}/complete", {})
    form.provider.trouble = StoreDown("It does not answer.")
    began, asked = clock.now, []
    for minute in (1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 64, 128, 256, 512, 1023, 1024, 1440, 1441, 1442, 3000):
        clock.now = began + minute * MINUTE
        asked += [minute] * await checkouts.ask_due()
    # The last time is after the end, once the provider answers: a payment in the last moment counts.
    assert asked == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1441, 3000]
    form.provider.trouble = None
    assert [await checkouts.ask_due() for clock.now in (began + 4 * DAY, began + 5 * DAY)] == [1, 0]
    clock.now = began + DAY
    form.provider.pays("pay_1")
    assert (await form.status(id))["status"] == "succeeded"


@pytest.mark.parametrize("connected", [True, False])
async def test_a_key_that_is_refused_at_the_last_question_loses_no_payment(form: Page, connected: bool) -> None:
    form.provider.tells = False
    checkouts, clock, shop = services_of(form.shop).checkouts, form.shop.clock, form.shop
    await form.ask("POST", f"checkout/{await form.started()}/complete", {})
    form.provider.pays("pay_1")
    if connected:
        form.provider.trouble = CredentialsRefused("The key was revoked.")
    else:
        await credentials.delete(checkouts.connections, shop.project_id, form.app_id)
    clock.now += 1441 * MINUTE
    assert await checkouts.ask_due() == 1
    clock.now += 8 * DAY
    await prune(shop.database, clock.now - KEPT)
    form.provider.trouble = None
    await credentials.save(checkouts.connections, shop.project_id, form.app_id, {"api_key": "new"})
    assert (await checkouts.ask_due(), await checkouts.ask_due()) == (1, 0)
    assert "pro" in (await subscriber(shop))["entitlements"]


async def test_old_checkouts_are_removed(form: Page) -> None:
    id = await form.started()
    await prune(form.shop.database, form.shop.clock.now + DAY)
    assert (await form.ask("GET", f"checkout/{id}")).status == 200
    await prune(form.shop.database, form.shop.clock.now + DAY + 1)
    assert (await form.ask("GET", f"checkout/{id}")).status == 404


async def test_a_checkout_whose_payment_may_still_come_is_kept_for_three_months(form: Page) -> None:
    form.provider.tells = False
    id = await form.started()
    await form.ask("POST", f"checkout/{id}/complete", {})
    for days, status in ((1, 200), (91, 200), (92, 404)):
        await prune(form.shop.database, form.shop.clock.now + days * DAY)
        assert (await form.ask("GET", f"checkout/{id}")).status == status


async def test_the_offering_that_the_page_showed_is_kept_with_the_purchase(hosted: Page, form: Page) -> None:
    shop = hosted.shop
    offering = (await post(shop, "offerings", {"lookup_key": "autumn", "display_name": "Autumn"})).json()
    id = await hosted.started("ada", **{CLAIM: "autumn"})
    hosted.provider.pays("pay_1")
    assert (await hosted.status(id))["status"] == "succeeded"
    # In a form the payment is created later, from what the checkout has kept.
    id = await form.started("bob", "coins_100", **{CLAIM: "autumn"})
    assert (await form.ask("POST", f"checkout/{id}/complete", {"email": BUYER})).status == 200
    form.provider.pays("pay_1")
    assert (await form.status(id))["status"] == "succeeded"
    [bought] = (await get(shop, "subscriptions?store_subscription_identifier=sub_pay_1")).json()["items"]
    [coins] = (await get(shop, "purchases?store_purchase_identifier=pay_1")).json()["items"]
    assert bought["presented_offering_id"] == coins["presented_offering_id"] == offering["id"]


async def test_an_offering_that_the_project_does_not_have_is_not_kept(hosted: Page) -> None:
    claims: tuple[Any, ...] = ("spring", "", 7, {"a": 1}, None)
    for claim in claims:
        assert (await hosted.start("ada", **{CLAIM: claim})).status == 200
    assert [one.offering for one in hosted.provider.orders] == [None] * 5
