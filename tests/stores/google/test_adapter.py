"""What the adapter asks Google, and what the answers mean for receipts, acknowledgements and credentials."""

import time
from collections.abc import Mapping

import msgspec
import pytest

from latchkey.domain.instants import DAY, MINUTE
from latchkey.domain.purchases.purchase import Environment, Purchase
from latchkey.domain.purchases.subscription import PeriodType, Subscription
from latchkey.stores.adapter import AppReceipt, ConnectedApp, SeenPurchase, StoreReading
from latchkey.stores.errors import CredentialsRefused, InvalidReceipt, NoAnswer, StoreDown, StoreError
from latchkey.stores.google.adapter import GoogleAdapter
from latchkey.stores.http import StoreResponse
from tests.stores.google.play import APP_ID, MONTH, ORDER, START, TOKEN, Play, error, iso, notice, voided_notice

RECEIPT = AppReceipt(token=TOKEN, product_ids=("pro",))


def text(told: Mapping[str, object]) -> str:
    return msgspec.json.encode(told).decode()


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


class TestReceipts:
    async def test_a_subscription(self, google: GoogleAdapter, app: ConnectedApp, play: Play) -> None:
        play.buy(externalAccountIdentifiers={"obfuscatedExternalAccountId": "ann"})
        seen = only(await google.read_receipt(app, RECEIPT))
        assert (seen.account_token, seen.handle, seen.unordered, seen.acknowledge) == ("ann", TOKEN, True, True)
        assert isinstance(seen.snapshot, Subscription)
        assert (seen.snapshot.id, seen.snapshot.app_id) == (ORDER, APP_ID)
        assert seen.snapshot.environment is Environment.PRODUCTION
        assert seen.snapshot.current.product_id == "pro:monthly"
        assert seen.snapshot.current.price.currency == "EUR"

    async def test_a_one_time_purchase(self, google: GoogleAdapter, app: ConnectedApp, play: Play) -> None:
        play.sell(obfuscatedExternalAccountId="ann")
        seen = only(await google.read_receipt(app, RECEIPT))
        assert (seen.account_token, seen.acknowledge) == ("ann", True)
        assert seen.should_consume is False, "only the catalog knows"
        assert isinstance(seen.snapshot, Purchase)
        assert (seen.snapshot.id, seen.snapshot.product_id) == (ORDER, "coins")
        assert (seen.snapshot.price.micros, seen.snapshot.ends_at) == (1_990_000, None)

    async def test_what_is_acknowledged_is_left_alone(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play
    ) -> None:
        play.sell(acknowledgementState="ACKNOWLEDGEMENT_STATE_ACKNOWLEDGED")
        assert only(await google.read_receipt(app, RECEIPT)).acknowledge is False

    async def test_test_purchases_are_sandbox(self, google: GoogleAdapter, app: ConnectedApp, play: Play) -> None:
        play.buy(testPurchase={})
        assert subscription(await google.read_receipt(app, RECEIPT)).environment is Environment.SANDBOX
        play.subscriptions.clear()
        play.sell(testPurchaseContext={"fopType": "TEST"})
        assert one_time(await google.read_receipt(app, RECEIPT)).environment is Environment.SANDBOX

    async def test_a_purchase_that_is_not_paid_yet_gives_nothing_and_is_not_refused(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play
    ) -> None:
        play.buy(subscriptionState="SUBSCRIPTION_STATE_PENDING")
        reading = await google.read_receipt(app, RECEIPT)
        assert (reading.seen, reading.note) == ((), "The purchase is waiting for its payment.")

    @pytest.mark.parametrize("token", [None, "", "with space", "é", "a" * 3000, "add#on", "\x00", ".", "..", "..."])
    async def test_what_cannot_be_a_token_is_invalid_without_asking(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play, token: str | None
    ) -> None:
        with pytest.raises(InvalidReceipt):
            await google.read_receipt(app, AppReceipt(token=token))
        assert play.calls == []

    @pytest.mark.parametrize("token", ["/".join(["..", "..", "orders"]), "a/b?c=d", "%2e%2e", "..a"])
    async def test_a_token_stays_one_part_of_the_path(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play, token: str
    ) -> None:
        with pytest.raises(InvalidReceipt):
            await google.read_receipt(app, AppReceipt(token=token))
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
        self,
        google: GoogleAdapter,
        app: ConnectedApp,
        play: Play,
        answer: StoreResponse,
        expected: type[StoreError] | None,
    ) -> None:
        play.refuse = lambda path: answer if path.startswith("/purchases") else None
        if expected is None:
            assert (await google.read_receipt(app, RECEIPT)).seen == ()
            return
        with pytest.raises(expected) as refused:
            await google.read_receipt(app, RECEIPT)
        assert type(refused.value) is expected
        assert TOKEN not in refused.value.message

    async def test_a_token_unknown_to_one_api_may_still_be_known_to_the_other(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play
    ) -> None:
        play.refuse = lambda path: error(500) if "productsv2" in path else None
        with pytest.raises(StoreDown):
            await google.read_receipt(app, RECEIPT)

    async def test_a_reading_waits_for_its_order_but_not_for_long(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play
    ) -> None:
        play.buy()
        play.refuse = lambda path: error(503) if path.startswith("/orders") else None
        with pytest.raises(StoreDown):
            await google.read_receipt(app, RECEIPT)
        play.now += 2 * MINUTE
        read = subscription(await google.read_receipt(app, RECEIPT))
        assert (read.current.price.micros, read.current.ends_at) == (9_990_000, START + MONTH)
        # It waits again once orders have been read.
        play.refuse = lambda path: None
        await google.read_receipt(app, RECEIPT)
        play.refuse = lambda path: error(503) if path.startswith("/orders") else None
        with pytest.raises(StoreDown):
            await google.read_receipt(app, RECEIPT)

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
    async def test_whether_a_pause_is_planned_never_holds_up_a_reading(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play, answer: StoreResponse
    ) -> None:
        play.buy()
        play.refuse = lambda path: answer if path.startswith("/purchases/subscriptions/") else None
        assert subscription(await google.read(app, text(notice(11)))).current.ends_at == START + MONTH

    def test_what_has_the_form_of_a_token(self, google: GoogleAdapter) -> None:
        assert google.looks_real(AppReceipt(token="oomhdfhhmopkfdlkffnhnbml.AO-J1OyCvUpbShkG9G9HOIuxLPZl5ewSF9FIy3"), 0)
        for token in (None, "", "short", "a b" * 20, "test_1700000000000_3f", "a" * 2000):
            assert not google.looks_real(AppReceipt(token=token), 0)


class TestSubscriptions:
    async def test_an_introductory_price_is_what_the_order_says(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play
    ) -> None:
        play.buy(phase="introductoryPriceDetails", item={"offerPhase": {"introductoryPrice": {}}})
        play.orders[ORDER]["lineItems"][0]["total"] = {"currencyCode": "EUR", "units": "1", "nanos": 500_000_000}
        period = subscription(await google.read_receipt(app, RECEIPT)).current
        assert (period.period_type, period.price.micros) == (PeriodType.INTRO, 1_500_000)

    async def test_add_ons_are_subscriptions_of_their_own(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play
    ) -> None:
        bought = play.buy()
        extra = bought["lineItems"][0] | {"productId": "extra", "expiryTime": iso(START + 2 * MONTH)}
        bought["lineItems"].append(extra)
        play.orders[ORDER]["lineItems"].append(
            play.orders[ORDER]["lineItems"][0] | {"productId": "extra", "total": {"currencyCode": "EUR", "units": "2"}}
        )
        main, add_on = (await google.read_receipt(app, RECEIPT)).seen
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
        again = await google.read_again(app, add_on.handle, Environment.PRODUCTION)
        assert [purchase.handle for purchase in again.seen] == [TOKEN, f"{TOKEN}#extra"]

    async def test_an_add_on_that_will_be_removed_does_not_renew(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play
    ) -> None:
        play.buy(item={"deferredItemRemoval": {}})
        assert subscription(await google.read_receipt(app, RECEIPT)).status.auto_renew is False

    async def test_the_product_that_follows_is_named_with_its_base_plan_where_google_tells_it(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play
    ) -> None:
        bought = play.buy(item={"deferredItemReplacement": {"productId": "basic"}})
        bought["lineItems"][0]["autoRenewingPlan"] = {}
        bought["lineItems"].append({"productId": "basic", "offerDetails": {"basePlanId": "yearly"}})
        read = subscription(await google.read_receipt(app, RECEIPT))
        assert (read.status.next_product_id, read.status.auto_renew) == ("basic:yearly", True)

    async def test_a_purchase_without_an_order_has_an_id_of_its_token(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play
    ) -> None:
        bought = play.buy()
        bought["lineItems"][0].pop("latestSuccessfulOrderId")
        first = subscription(await google.read_receipt(app, RECEIPT))
        assert first == subscription(await google.read_receipt(app, RECEIPT))
        assert first.id.startswith("GPT.")
        assert TOKEN not in first.id

    async def test_a_renewal_heard_of_alone_asks_for_the_rest(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play
    ) -> None:
        play.buy()
        for _ in range(3):
            play.now += MONTH
            play.renew()
        seen = only(await google.read(app, text(notice(2))))
        assert seen.complete is False
        whole = only(await google.read_again(app, TOKEN, Environment.PRODUCTION))
        assert whole.complete is True
        assert isinstance(whole.snapshot, Subscription)
        assert [period.purchased_at for period in whole.snapshot.periods] == [START + n * MONTH for n in range(4)]

    async def test_an_order_that_google_does_not_know_leaves_a_gap(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play
    ) -> None:
        play.buy()
        play.now += MONTH
        play.renew()
        play.orders.pop(ORDER)
        read = subscription(await google.read_again(app, TOKEN, Environment.PRODUCTION))
        assert [period.id for period in read.periods] == [f"{ORDER}..0"]

    async def test_a_chain_is_asked_for_once(self, google: GoogleAdapter, app: ConnectedApp, play: Play) -> None:
        play.buy("first", "GPA.1")
        play.cancel("replacement", "first", state="EXPIRED")
        play.buy("second", "GPA.2", linkedPurchaseToken="first")
        play.cancel("replacement", "second", state="EXPIRED")
        play.buy(linkedPurchaseToken="second")
        for _ in range(3):
            assert only(await google.read_receipt(app, RECEIPT)).replaces == ("second", "first")
        assert sum("tokens/first" in call or "tokens/second" in call for call in play.calls) == 2

    async def test_a_chain_that_bites_its_tail_ends(self, google: GoogleAdapter, app: ConnectedApp, play: Play) -> None:
        play.buy("second", "GPA.2", linkedPurchaseToken=TOKEN)
        play.buy(linkedPurchaseToken="second")
        assert only(await google.read_receipt(app, RECEIPT)).replaces == ("second", TOKEN)

    async def test_a_subscription_after_a_prepaid_plan_begins_anew(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play
    ) -> None:
        play.buy("prepaid", "GPA.2", item={"prepaidPlan": {}})
        play.now += DAY
        play.buy(linkedPurchaseToken="prepaid")
        before, after = (await google.read_receipt(app, RECEIPT)).seen
        assert after.replaces == ()
        assert isinstance(before.snapshot, Purchase)
        assert (before.handle, before.snapshot.access_ends_at) == ("prepaid", play.now)


class TestNotifications:
    async def test_a_test_notification_says_that_it_works(self, google: GoogleAdapter, app: ConnectedApp) -> None:
        told = {"packageName": "com.example.app", "testNotification": {"version": "1.0"}}
        assert "works" in (await google.read(app, text(told))).note

    async def test_purchases_that_google_forgot_are_noted(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play
    ) -> None:
        assert (await google.read(app, text(notice(13)))).note == "Google knows no such purchase."
        play.refuse = lambda path: error(410) if path.startswith("/purchases") else None
        assert "60 days" in (await google.read(app, text(notice(13)))).note
        assert "60 days" in (await google.read_again(app, TOKEN, Environment.PRODUCTION)).note

    async def test_voided_purchases_of_the_last_days_can_be_listed(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play
    ) -> None:
        now = time.time_ns() // 1_000_000
        play.sell()
        play.voided = [{"purchaseToken": TOKEN, "orderId": ORDER, "voidedTimeMillis": str(now - DAY)}]
        found = [missed async for missed in google.missed(app, now - 90 * DAY, now)]
        assert [(item.external_id, item.kind, item.subject) for item in found] == [
            (f"voided/{ORDER}/{now - DAY}", "VOIDED_PURCHASE", TOKEN)
        ]
        play.products[TOKEN]["purchaseStateContext"] = {"purchaseState": "CANCELLED"}
        play.refund()
        assert one_time(await google.read(app, found[0].payload)).refunded_at == play.now

    async def test_a_cancelled_purchase_whose_order_says_otherwise_is_read_again_later(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play
    ) -> None:
        play.sell(purchaseStateContext={"purchaseState": "CANCELLED"})
        with pytest.raises(StoreDown):
            await google.read(app, text(voided_notice(type=2)))

    async def test_a_cancelled_purchase_gives_no_access_where_orders_cannot_be_read(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play
    ) -> None:
        play.sell(purchaseStateContext={"purchaseState": "CANCELLED"})
        play.refuse = lambda path: error(403, "permissionDenied") if path.startswith("/orders") else None
        read = one_time(await google.read(app, text(voided_notice(type=2))))
        assert read.refunded_at == read.purchased_at


class TestAcknowledging:
    @pytest.mark.parametrize(
        ("product_id", "is_subscription", "path"),
        [
            ("pro:monthly", True, f"/purchases/subscriptions/pro/tokens/{TOKEN}:acknowledge"),
            ("pro:pass", False, f"/purchases/subscriptions/pro/tokens/{TOKEN}:acknowledge"),
            ("coins", False, f"/purchases/products/coins/tokens/{TOKEN}:acknowledge"),
        ],
    )
    async def test_google_is_told(
        self,
        google: GoogleAdapter,
        app: ConnectedApp,
        play: Play,
        product_id: str,
        is_subscription: bool,
        path: str,
    ) -> None:
        play.buy()
        await google.acknowledge(app, TOKEN, product_id, subscription=is_subscription)
        assert play.acknowledged == [path]

    async def test_a_second_time_does_no_harm(self, google: GoogleAdapter, app: ConnectedApp, play: Play) -> None:
        play.buy(acknowledgementState="ACKNOWLEDGEMENT_STATE_ACKNOWLEDGED")
        play.refuse = lambda path: error(400, "invalid") if path.endswith(":acknowledge") else None
        await google.acknowledge(app, TOKEN, "pro:monthly", subscription=True)

    async def test_a_refused_one_that_google_still_waits_for_is_tried_again(
        self, google: GoogleAdapter, app: ConnectedApp, play: Play
    ) -> None:
        play.buy()
        play.refuse = lambda path: error(400, "invalid") if path.endswith(":acknowledge") else None
        with pytest.raises(StoreDown):
            await google.acknowledge(app, TOKEN, "pro:monthly", subscription=True)

    async def test_nothing_is_left_to_do_for_what_is_gone(self, google: GoogleAdapter, app: ConnectedApp) -> None:
        await google.acknowledge(app, TOKEN, "coins", subscription=False)
