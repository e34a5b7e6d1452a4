"""What the adapter asks Google, and what the answers mean for receipts, acknowledgements and credentials."""

import time
from typing import Any

import pytest

from latchkey.domain.instants import DAY, MINUTE
from latchkey.domain.purchases.purchase import Environment, Purchase
from latchkey.domain.purchases.subscription import PeriodType, Subscription
from latchkey.stores.adapter import AppReceipt, SeenPurchase, StoreReading
from latchkey.stores.errors import CredentialsRefused, InvalidReceipt, NoAnswer, StoreDown, StoreError
from latchkey.stores.http import StoreResponse
from tests.stores.google.play import APP_ID, MONTH, ORDER, START, TOKEN, Play, error, iso, notice, voided_notice


def only(reading: StoreReading) -> SeenPurchase:
    (seen,) = reading.seen
    return seen


def subscription(reading: StoreReading) -> Subscription:
    snapshot = only(reading).snapshot
    assert isinstance(snapshot, Subscription)
    return snapshot


def one_time(reading: StoreReading) -> Purchase:
    snapshot = only(reading).snapshot
    assert isinstance(snapshot, Purchase)
    return snapshot


# Receipts.


async def test_a_subscription(play: Play) -> None:
    play.buy(externalAccountIdentifiers={"obfuscatedExternalAccountId": "ann"})
    seen = only(await play.read_receipt())
    assert (seen.account_token, seen.handle, seen.unordered, seen.acknowledge) == ("ann", TOKEN, True, True)
    assert isinstance(seen.snapshot, Subscription)
    assert (seen.snapshot.id, seen.snapshot.app_id) == (ORDER, APP_ID)
    assert seen.snapshot.environment is Environment.PRODUCTION
    assert seen.snapshot.current.product_id == "pro:monthly"
    assert seen.snapshot.current.price.currency == "EUR"


async def test_a_one_time_purchase(play: Play) -> None:
    play.sell(obfuscatedExternalAccountId="ann")
    seen = only(await play.read_receipt())
    assert (seen.account_token, seen.acknowledge) == ("ann", True)
    assert seen.should_consume is False, "only the catalog knows"
    assert isinstance(seen.snapshot, Purchase)
    assert (seen.snapshot.id, seen.snapshot.product_id) == (ORDER, "coins")
    assert (seen.snapshot.price.micros, seen.snapshot.ends_at) == (1_990_000, None)


async def test_what_is_acknowledged_is_left_alone(play: Play) -> None:
    play.sell(acknowledgementState="ACKNOWLEDGEMENT_STATE_ACKNOWLEDGED")
    assert only(await play.read_receipt()).acknowledge is False


async def test_test_purchases_are_sandbox(play: Play) -> None:
    play.buy(testPurchase={})
    assert subscription(await play.read_receipt()).environment is Environment.SANDBOX
    play.subscriptions.clear()
    play.sell(testPurchaseContext={"fopType": "TEST"})
    assert one_time(await play.read_receipt()).environment is Environment.SANDBOX


async def test_a_purchase_that_is_not_paid_yet_gives_nothing_and_is_not_refused(play: Play) -> None:
    play.buy(subscriptionState="SUBSCRIPTION_STATE_PENDING")
    reading = await play.read_receipt()
    assert (reading.seen, reading.note) == ((), "The purchase is waiting for its payment.")


@pytest.mark.parametrize("token", [None, "", "with space", "é", "a" * 3000, "add#on", "\x00", ".", "..", "..."])
async def test_what_cannot_be_a_token_is_invalid_without_asking(play: Play, token: str | None) -> None:
    with pytest.raises(InvalidReceipt):
        await play.read_receipt(AppReceipt(token=token))
    assert play.calls == []


@pytest.mark.parametrize("token", ["/".join(["..", "..", "orders"]), "a/b?c=d", "%2e%2e", "..a"])
async def test_a_token_stays_one_part_of_the_path(play: Play, token: str) -> None:
    with pytest.raises(InvalidReceipt):
        await play.read_receipt(AppReceipt(token=token))
    assert [call.rpartition("/")[0] for call in play.calls[1:]] == [
        "GET /purchases/subscriptionsv2/tokens",
        "GET /purchases/productsv2/tokens",
    ]


ANSWERS: tuple[tuple[StoreResponse, type[StoreError] | None], ...] = (
    (error(404, "purchaseTokenNotFound"), InvalidReceipt),
    (error(404, "", "NOT_FOUND"), InvalidReceipt),
    (error(400, "invalid"), InvalidReceipt),
    (error(400, "", "INVALID_ARGUMENT"), InvalidReceipt),
    (error(410, "purchaseTokenNoLongerValid"), None),
    (error(404, "applicationNotFound"), CredentialsRefused),
    (error(400, "failedPrecondition"), StoreDown),
    (error(403, "permissionDenied"), CredentialsRefused),
    (error(403, "projectNotLinked"), CredentialsRefused),
    (error(401, "authError"), CredentialsRefused),
    (error(403, "rateLimitExceeded"), NoAnswer),
    (error(403, "quotaExceeded"), NoAnswer),
    (error(429), NoAnswer),
    (error(500), NoAnswer),
    (error(503), NoAnswer),
    (error(409), StoreDown),
    (StoreResponse(404, {}, b"<html>not found</html>"), StoreDown),
    (StoreResponse(400, {}, b""), StoreDown),
    (StoreResponse(403, {}, b"[]"), StoreDown),
    (StoreResponse(302, {"location": "https://evil.example.com"}, b""), StoreDown),
    (StoreResponse(200, {}, b"<html>"), StoreDown),
    (StoreResponse(200, {}, b'{"lineItems": 5}'), StoreDown),
    (StoreResponse(200, {}, b'{"subscriptionState": "SUBSCRIPTION_STATE_NEW"}'), StoreDown),
)


@pytest.mark.parametrize(("answer", "expected"), ANSWERS)
async def test_only_google_itself_can_make_a_receipt_invalid(
    play: Play,
    answer: StoreResponse,
    expected: type[StoreError] | None,
) -> None:
    play.refuse = lambda path: answer if path.startswith("/purchases") else None
    if expected is None:
        assert (await play.read_receipt()).seen == ()
        return
    with pytest.raises(expected) as refused:
        await play.read_receipt()
    assert type(refused.value) is expected
    assert TOKEN not in refused.value.message


async def test_a_token_unknown_to_one_api_may_still_be_known_to_the_other(play: Play) -> None:
    play.refuse = lambda path: error(500) if "productsv2" in path else None
    with pytest.raises(StoreDown):
        await play.read_receipt()


async def test_a_reading_waits_for_its_order_but_not_for_long(play: Play) -> None:
    play.buy()
    play.refuse = lambda path: error(503) if path.startswith("/orders") else None
    with pytest.raises(StoreDown):
        await play.read_receipt()
    play.now += 2 * MINUTE
    read = subscription(await play.read_receipt())
    assert (read.current.price.micros, read.current.ends_at) == (9_990_000, START + MONTH)
    # It waits again once orders have been read.
    play.refuse = lambda path: None
    await play.read_receipt()
    play.refuse = lambda path: error(503) if path.startswith("/orders") else None
    with pytest.raises(StoreDown):
        await play.read_receipt()


@pytest.mark.parametrize(
    "answer",
    [
        error(404),
        error(410),
        error(403, "denied"),
        error(503),
        StoreResponse(404, {}, b"<"),
        StoreResponse(200, {}, b""),
    ],
)
async def test_whether_a_pause_is_planned_never_holds_up_a_reading(play: Play, answer: StoreResponse) -> None:
    play.buy()
    play.refuse = lambda path: answer if path.startswith("/purchases/subscriptions/") else None
    assert subscription(await play.read(notice(11))).current.ends_at == START + MONTH


def test_what_has_the_form_of_a_token(play: Play) -> None:
    assert play.adapter.looks_real(
        AppReceipt(token="oomhdfhhmopkfdlkffnhnbml.AO-J1OyCvUpbShkG9G9HOIuxLPZl5ewSF9FIy3"), 0
    )
    for token in (None, "", "short", "a b" * 20, "test_1700000000000_3f", "a" * 2000):
        assert not play.adapter.looks_real(AppReceipt(token=token), 0)


# Subscriptions.


async def test_an_introductory_price_is_what_the_order_says(play: Play) -> None:
    play.buy(phase="introductoryPriceDetails", item={"offerPhase": {"introductoryPrice": {}}})
    play.orders[ORDER]["lineItems"][0]["total"] = {"currencyCode": "EUR", "units": "1", "nanos": 500_000_000}
    period = subscription(await play.read_receipt()).current
    assert (period.period_type, period.price.micros) == (PeriodType.INTRO, 1_500_000)


@pytest.mark.parametrize(
    ("promotion", "code"),
    [
        (None, None),
        ({"vanityCode": {"promotionCode": "SPRING"}}, "SPRING"),
        # Google does not tell its text.
        ({"oneTimeCode": {}}, "one-time code"),
    ],
)
async def test_the_code_that_was_redeemed_with_a_purchase_is_that_of_its_first_period(
    play: Play, promotion: dict[str, Any] | None, code: str | None
) -> None:
    play.buy(item={} if promotion is None else {"signupPromotion": promotion})
    assert subscription(await play.read_receipt()).current.offer_code == code


async def test_add_ons_are_subscriptions_of_their_own(play: Play) -> None:
    bought = play.buy()
    extra = bought["lineItems"][0] | {"productId": "extra", "expiryTime": iso(START + 2 * MONTH)}
    bought["lineItems"].append(extra)
    play.orders[ORDER]["lineItems"].append(
        play.orders[ORDER]["lineItems"][0] | {"productId": "extra", "total": {"currencyCode": "EUR", "units": "2"}}
    )
    main, add_on = (await play.read_receipt()).seen
    assert isinstance(main.snapshot, Subscription)
    assert isinstance(add_on.snapshot, Subscription)
    assert (main.snapshot.id, main.handle, main.acknowledge) == (ORDER, TOKEN, True)
    assert (add_on.snapshot.id, add_on.handle) == (f"{ORDER}#extra", f"{TOKEN}#extra")
    assert add_on.acknowledge is False
    assert (add_on.snapshot.current.product_id, add_on.snapshot.current.ends_at) == (
        "extra:monthly",
        START + 2 * MONTH,
    )
    assert add_on.snapshot.current.price.micros == 2_000_000
    again = await play.read_again(add_on.handle)
    assert [purchase.handle for purchase in again.seen] == [TOKEN, f"{TOKEN}#extra"]


async def test_an_add_on_that_will_be_removed_does_not_renew(play: Play) -> None:
    play.buy(item={"deferredItemRemoval": {}})
    assert subscription(await play.read_receipt()).status.auto_renew is False


async def test_the_product_that_follows_is_named_with_its_base_plan_where_google_tells_it(play: Play) -> None:
    bought = play.buy(item={"deferredItemReplacement": {"productId": "basic"}})
    bought["lineItems"][0]["autoRenewingPlan"] = {}
    bought["lineItems"].append({"productId": "basic", "offerDetails": {"basePlanId": "yearly"}})
    read = subscription(await play.read_receipt())
    assert (read.status.next_product_id, read.status.auto_renew) == ("basic:yearly", True)


async def test_a_purchase_without_an_order_has_an_id_of_its_token(play: Play) -> None:
    bought = play.buy()
    bought["lineItems"][0].pop("latestSuccessfulOrderId")
    first = subscription(await play.read_receipt())
    assert first == subscription(await play.read_receipt())
    assert first.id.startswith("GPT.")
    assert TOKEN not in first.id


async def test_a_renewal_heard_of_alone_asks_for_the_rest(play: Play) -> None:
    play.buy()
    for _ in range(3):
        play.now += MONTH
        play.renew()
    seen = only(await play.read(notice(2)))
    assert seen.complete is False
    whole = only(await play.read_again())
    assert whole.complete is True
    assert isinstance(whole.snapshot, Subscription)
    assert [period.purchased_at for period in whole.snapshot.periods] == [START + n * MONTH for n in range(4)]


async def test_an_order_that_google_does_not_know_leaves_a_gap(play: Play) -> None:
    play.buy()
    play.now += MONTH
    play.renew()
    play.orders.pop(ORDER)
    read = subscription(await play.read_again())
    assert [period.id for period in read.periods] == [f"{ORDER}..0"]


async def test_a_chain_is_asked_for_once(play: Play) -> None:
    play.buy("first", "GPA.1")
    play.cancel("replacement", "first", state="EXPIRED")
    play.buy("second", "GPA.2", linkedPurchaseToken="first")
    play.cancel("replacement", "second", state="EXPIRED")
    play.buy(linkedPurchaseToken="second")
    for _ in range(3):
        assert only(await play.read_receipt()).replaces == ("second", "first")
    assert sum("tokens/first" in call or "tokens/second" in call for call in play.calls) == 2


async def test_a_chain_that_bites_its_tail_ends(play: Play) -> None:
    play.buy("second", "GPA.2", linkedPurchaseToken=TOKEN)
    play.buy(linkedPurchaseToken="second")
    assert only(await play.read_receipt()).replaces == ("second", TOKEN)


async def test_a_subscription_after_a_prepaid_plan_begins_anew(play: Play) -> None:
    play.buy("prepaid", "GPA.2", item={"prepaidPlan": {}})
    play.now += DAY
    play.buy(linkedPurchaseToken="prepaid")
    before, after = (await play.read_receipt()).seen
    assert after.replaces == ()
    assert isinstance(before.snapshot, Purchase)
    assert (before.handle, before.snapshot.access_ends_at) == ("prepaid", play.now)


# Notifications.


async def test_a_test_notification_says_that_it_works(play: Play) -> None:
    told = {"packageName": "com.example.app", "testNotification": {"version": "1.0"}}
    assert "works" in (await play.read(told)).note


async def test_purchases_that_google_forgot_are_noted(play: Play) -> None:
    assert (await play.read(notice(13))).note == "Google knows no such purchase."
    play.refuse = lambda path: error(410) if path.startswith("/purchases") else None
    assert "60 days" in (await play.read(notice(13))).note
    assert "60 days" in (await play.read_again()).note


async def test_voided_purchases_of_the_last_days_can_be_listed(play: Play) -> None:
    now = time.time_ns() // 1_000_000
    play.sell()
    play.voided = [{"purchaseToken": TOKEN, "orderId": ORDER, "voidedTimeMillis": str(now - DAY)}]
    found = [missed async for missed in play.adapter.missed(play.app, now - 90 * DAY, now)]
    assert [(item.external_id, item.kind, item.subject) for item in found] == [
        (f"voided/{ORDER}/{now - DAY}", "VOIDED_PURCHASE", TOKEN)
    ]
    play.products[TOKEN]["purchaseStateContext"] = {"purchaseState": "CANCELLED"}
    play.refund()
    assert one_time(await play.adapter.read(play.app, found[0].payload)).refunded_at == play.now


async def test_a_cancelled_purchase_whose_order_says_otherwise_is_read_again_later(play: Play) -> None:
    play.sell(purchaseStateContext={"purchaseState": "CANCELLED"})
    with pytest.raises(StoreDown):
        await play.read(voided_notice(type=2))


async def test_a_cancelled_purchase_gives_no_access_where_orders_cannot_be_read(play: Play) -> None:
    play.sell(purchaseStateContext={"purchaseState": "CANCELLED"})
    play.refuse = lambda path: error(403, "permissionDenied") if path.startswith("/orders") else None
    read = one_time(await play.read(voided_notice(type=2)))
    assert read.refunded_at == read.purchased_at


# Acknowledging.


@pytest.mark.parametrize(
    ("product_id", "is_subscription", "path"),
    [
        ("pro:monthly", True, f"/purchases/subscriptions/pro/tokens/{TOKEN}:acknowledge"),
        ("pro:pass", False, f"/purchases/subscriptions/pro/tokens/{TOKEN}:acknowledge"),
        ("coins", False, f"/purchases/products/coins/tokens/{TOKEN}:acknowledge"),
    ],
)
async def test_google_is_told(
    play: Play,
    product_id: str,
    is_subscription: bool,
    path: str,
) -> None:
    play.buy()
    await play.adapter.acknowledge(play.app, TOKEN, product_id, subscription=is_subscription)
    assert play.acknowledged == [path]


async def test_a_second_time_does_no_harm(play: Play) -> None:
    play.buy(acknowledgementState="ACKNOWLEDGEMENT_STATE_ACKNOWLEDGED")
    play.refuse = lambda path: error(400, "invalid") if path.endswith(":acknowledge") else None
    await play.adapter.acknowledge(play.app, TOKEN, "pro:monthly", subscription=True)


async def test_a_refused_one_that_google_still_waits_for_is_tried_again(play: Play) -> None:
    play.buy()
    play.refuse = lambda path: error(400, "invalid") if path.endswith(":acknowledge") else None
    with pytest.raises(StoreDown):
        await play.adapter.acknowledge(play.app, TOKEN, "pro:monthly", subscription=True)


async def test_nothing_is_left_to_do_for_what_is_gone(play: Play) -> None:
    await play.adapter.acknowledge(play.app, TOKEN, "coins", subscription=False)
