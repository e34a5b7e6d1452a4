"""Lives in the pretend App Store, as tables: what happens, and which notifications Apple would send."""

from __future__ import annotations

from typing import Any

import pytest

from latchkey.domain.instants import DAY, Ms, add, parse_duration
from latchkey.domain.refusal import Refusal
from latchkey.emulators.apple import apple_due_events
from latchkey.emulators.apple.apple_books import AppleBooks, ApplePurchase, AppleStatus
from latchkey.emulators.apple.apple_control_requests import ACTS, FIRST_PRODUCTS, AppleProductRequest, AppleSaleRequest
from latchkey.emulators.control_requests import converted
from tests.emulators.emulated_purchase import EmulatedPurchase, Step

START: Ms = 1_800_000_000_000
MONTH = parse_duration("P1M")


class AppleLife(EmulatedPurchase[AppleBooks]):
    rules = apple_due_events

    def buy(self, product_id: str = "pro_monthly", **sale: Any) -> None:
        request = converted({"product_id": product_id, **sale}, AppleSaleRequest)
        books, notices = request.apply(self.books, self.now)
        assert notices[0].purchase is not None
        self.id = notices[0].purchase.id
        self.keep((books, notices))

    def act(self, act: str, **options: Any) -> None:
        self.keep(ACTS.apply(act, options, self.books, self.now, self.id))

    @property
    def purchase(self) -> ApplePurchase:
        return self.books.purchases[self.id]


def live(*steps: Step) -> AppleLife:
    products = tuple(converted(product, AppleProductRequest).product() for product in FIRST_PRODUCTS)
    return AppleLife(AppleBooks(products=products)).live(*steps)


PROMO = {"offer": {"kind": "promotional", "price": 1.0, "id": "half"}}
CODE = {"offer": {"kind": "code", "discount": "free", "duration": "P2W", "id": "gift"}}
WIN_BACK = {"offer": {"kind": "win_back", "price": 2.0, "id": "back"}}

BOUGHT = "SUBSCRIBED/INITIAL_BUY"
OFF, ON = "DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_DISABLED", "DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_ENABLED"

LIVES: list[tuple[str, list[Any], list[str], AppleStatus | None]] = [
    ("bought", ["buy"], [BOUGHT], AppleStatus.ACTIVE),
    ("trial that converts", [("buy", {"trial": True}), "P7D"], [BOUGHT, "DID_RENEW"], AppleStatus.ACTIVE),
    ("renewals", ["buy", "P3M"], [BOUGHT, "DID_RENEW", "DID_RENEW", "DID_RENEW"], AppleStatus.ACTIVE),
    ("cancelled", ["buy", "P1D", "cancel", "P1M"], [BOUGHT, OFF, "EXPIRED/VOLUNTARY"], AppleStatus.EXPIRED),
    ("cancelled and not", ["buy", "cancel", "uncancel", "P1M"], [BOUGHT, OFF, ON, "DID_RENEW"], AppleStatus.ACTIVE),
    (
        "resubscribed",
        ["buy", "cancel", "P2M", ("buy", {"product_id": "pro_yearly"})],
        [BOUGHT, OFF, "EXPIRED/VOLUNTARY", "SUBSCRIBED/RESUBSCRIBE"],
        AppleStatus.ACTIVE,
    ),
    (
        "grace that saves",
        ["buy", ("fail_billing", {"grace_days": 16}), "P1M", "P3D", "recover"],
        [BOUGHT, "DID_FAIL_TO_RENEW/GRACE_PERIOD", "DID_RENEW/BILLING_RECOVERY"],
        AppleStatus.ACTIVE,
    ),
    (
        "grace in vain",
        ["buy", ("fail_billing", {"grace_days": 3}), "P1M", "P70D"],
        [BOUGHT, "DID_FAIL_TO_RENEW/GRACE_PERIOD", "GRACE_PERIOD_EXPIRED", "EXPIRED/BILLING_RETRY"],
        AppleStatus.EXPIRED,
    ),
    (
        "retry that succeeds",
        ["buy", "fail_billing", "P1M", "P20D", "recover"],
        [BOUGHT, "DID_FAIL_TO_RENEW", "DID_RENEW/BILLING_RECOVERY"],
        AppleStatus.ACTIVE,
    ),
    (
        "retry in vain",
        ["buy", "fail_billing", "P1M", "P60D"],
        [BOUGHT, "DID_FAIL_TO_RENEW", "EXPIRED/BILLING_RETRY"],
        AppleStatus.EXPIRED,
    ),
    ("card replaced in time", ["buy", "fail_billing", "recover", "P1M"], [BOUGHT, "DID_RENEW"], AppleStatus.ACTIVE),
    (
        "cancelled in the grace period",
        ["buy", ("fail_billing", {"grace_days": 16}), "P1M", "cancel", "P16D"],
        [BOUGHT, "DID_FAIL_TO_RENEW/GRACE_PERIOD", OFF, "EXPIRED/VOLUNTARY"],
        AppleStatus.EXPIRED,
    ),
    (
        "cancelled while billing is retried",
        ["buy", "fail_billing", "P1M", "cancel"],
        [BOUGHT, "DID_FAIL_TO_RENEW", OFF, "EXPIRED/BILLING_RETRY"],
        AppleStatus.EXPIRED,
    ),
    (
        "price refused",
        ["buy", "price_increase", ("expire", {"reason": "price_increase"}), "P1M"],
        [BOUGHT, "PRICE_INCREASE/PENDING", "EXPIRED/PRICE_INCREASE"],
        AppleStatus.EXPIRED,
    ),
    (
        "price accepted",
        ["buy", ("price_increase", {"agreed": True}), "P1M"],
        [BOUGHT, "PRICE_INCREASE/ACCEPTED", "DID_RENEW"],
        AppleStatus.ACTIVE,
    ),
    (
        "product gone",
        ["buy", ("expire", {"reason": "not_for_sale"}), "P1M"],
        [BOUGHT, "EXPIRED/PRODUCT_NOT_FOR_SALE"],
        AppleStatus.EXPIRED,
    ),
    ("refund", ["buy", "P3D", "refund", "P1M"], [BOUGHT, "REFUND"], AppleStatus.REVOKED),
    (
        "refund reversed",
        ["buy", "refund", "P1D", "reverse_refund", "P1M"],
        [BOUGHT, "REFUND", "REFUND_REVERSED", "DID_RENEW"],
        AppleStatus.ACTIVE,
    ),
    (
        "refund reversed too late",
        ["buy", "refund", "P2M", "reverse_refund"],
        [BOUGHT, "REFUND", "REFUND_REVERSED"],
        AppleStatus.EXPIRED,
    ),
    (
        "refund asked for and declined",
        ["buy", "request_consumption", "decline_refund"],
        [BOUGHT, "CONSUMPTION_REQUEST", "REFUND_DECLINED"],
        AppleStatus.ACTIVE,
    ),
    (
        "upgrade",
        ["buy", ("change", {"product_id": "team_monthly"})],
        [BOUGHT, "DID_CHANGE_RENEWAL_PREF/UPGRADE"],
        AppleStatus.ACTIVE,
    ),
    (
        "downgrade",
        ["buy", ("change", {"product_id": "basic_monthly"}), "P1M"],
        [BOUGHT, "DID_CHANGE_RENEWAL_PREF/DOWNGRADE", "DID_RENEW"],
        AppleStatus.ACTIVE,
    ),
    (
        "downgrade called off",
        ["buy", ("change", {"product_id": "basic_monthly"}), ("change", {"product_id": "pro_monthly"}), "P1M"],
        [BOUGHT, "DID_CHANGE_RENEWAL_PREF/DOWNGRADE", "DID_CHANGE_RENEWAL_PREF", "DID_RENEW"],
        AppleStatus.ACTIVE,
    ),
    (
        "crossgrade to another length waits",
        ["buy", ("change", {"product_id": "pro_yearly"})],
        [BOUGHT, "DID_CHANGE_RENEWAL_PREF/DOWNGRADE"],
        AppleStatus.ACTIVE,
    ),
    ("offer with the first purchase", [("buy", CODE)], ["OFFER_REDEEMED/INITIAL_BUY"], AppleStatus.ACTIVE),
    (
        "offer that wins back",
        ["buy", "cancel", "P2M", ("buy", WIN_BACK)],
        [BOUGHT, OFF, "EXPIRED/VOLUNTARY", "OFFER_REDEEMED/RESUBSCRIBE"],
        AppleStatus.ACTIVE,
    ),
    (
        "offer while it runs",
        ["buy", ("redeem", PROMO), "P1M"],
        [BOUGHT, "OFFER_REDEEMED", "DID_RENEW"],
        AppleStatus.ACTIVE,
    ),
    (
        "offer with an upgrade",
        ["buy", ("change", {"product_id": "team_monthly", **PROMO})],
        [BOUGHT, "OFFER_REDEEMED/UPGRADE"],
        AppleStatus.ACTIVE,
    ),
    (
        "offer with a downgrade",
        ["buy", ("change", {"product_id": "basic_monthly", **PROMO}), "P1M"],
        [BOUGHT, "OFFER_REDEEMED/DOWNGRADE", "DID_RENEW"],
        AppleStatus.ACTIVE,
    ),
    ("extended", ["buy", ("extend", {"days": 10}), "P1M"], [BOUGHT, "RENEWAL_EXTENDED"], AppleStatus.ACTIVE),
    (
        "family sharing that ends",
        [("buy", {"family": True}), "P3D", "end_family_sharing", "P1M"],
        [BOUGHT, "REVOKE"],
        AppleStatus.REVOKED,
    ),
    ("one-time purchase", [("buy", {"product_id": "pro_lifetime"}), "P1Y"], ["ONE_TIME_CHARGE"], None),
    (
        "one-time purchase refunded",
        [("buy", {"product_id": "coins_100"}), "refund", "reverse_refund"],
        ["ONE_TIME_CHARGE", "REFUND", "REFUND_REVERSED"],
        None,
    ),
]


@pytest.mark.parametrize(("steps", "told", "status"), [row[1:] for row in LIVES], ids=[row[0] for row in LIVES])
def test_a_life_and_what_apple_tells_of_it(steps: list[Any], told: list[str], status: AppleStatus | None) -> None:
    world = live(*steps)
    assert world.sent == told
    assert world.purchase.status is status


def test_periods_follow_each_other_without_a_gap() -> None:
    purchase = live(("buy", {"trial": True}), "P1Y").purchase
    for before, after in zip(purchase.transactions, purchase.transactions[1:], strict=False):
        assert before.expires_at == after.purchased_at
    assert [transaction.price.micros for transaction in purchase.transactions[:3]] == [0, 9_990_000, 9_990_000]
    assert {transaction.reason for transaction in purchase.transactions[1:]} == {"RENEWAL"}


def test_a_payment_within_the_grace_period_misses_nothing_and_one_after_it_starts_anew() -> None:
    in_grace = live("buy", ("fail_billing", {"grace_days": 16}), "P1M", "P3D", "recover").purchase
    first, second = in_grace.transactions
    assert first.expires_at is not None
    assert second.expires_at == add(first.expires_at, MONTH)
    later = live("buy", "fail_billing", "P1M", "P3D", "recover")
    assert later.purchase.latest.expires_at == add(later.now, MONTH)


def test_an_upgrade_begins_at_once_and_marks_what_it_left() -> None:
    world = live("buy", "P3D", ("change", {"product_id": "team_monthly"}))
    left, bought = world.purchase.transactions
    assert (left.upgraded, bought.product_id, bought.purchased_at) == (True, "team_monthly", world.now)


def test_an_introductory_price_lasts_for_its_periods() -> None:
    purchase = live(("buy", {"product_id": "basic_monthly", "intro": True}), "P4M").purchase
    assert [transaction.price.micros for transaction in purchase.transactions] == [990_000] * 3 + [4_990_000] * 2


def test_a_resubscription_goes_on_under_the_first_transaction_id() -> None:
    world = live("buy", "cancel", "P2M", "buy")
    assert len(world.books.purchases) == 1
    assert world.purchase.id == world.purchase.transactions[0].id


def test_an_older_transaction_can_be_refunded_and_the_running_one_stays() -> None:
    world = live("buy", "P1M")
    world.act("refund", transaction=world.purchase.transactions[0].id)
    assert world.purchase.status is AppleStatus.ACTIVE
    assert world.purchase.transactions[0].revoked_at == world.now


@pytest.mark.parametrize(
    ("steps", "refused"),
    [
        (["buy", "buy"], "in the group 'main' already"),
        ([("buy", {"trial": True}), "cancel", "P1M", ("buy", {"trial": True})], "used an introductory offer"),
        ([("buy", {"product_id": "team_monthly", "trial": True})], "no trial on offer"),
        ([("buy", {"product_id": "nothing"})], "sells no product"),
        ([("buy", {"account_token": "ada"})], "is a UUID"),
        (["buy", "cancel", "cancel"], "off already"),
        (["buy", "uncancel"], "on already"),
        (["buy", "recover"], "nothing to recover"),
        (["buy", "refund", "refund"], "not refunded already"),
        (["buy", "reverse_refund"], "nothing to reverse"),
        (["buy", "refund", "cancel"], "refunded or revoked"),
        (["buy", "cancel", "P2M", "uncancel"], "ended at"),
        ([("buy", {"product_id": "coins_100"}), "cancel"], "one-time purchase"),
        (["buy", "end_family_sharing"], "not shared"),
        (["buy", ("extend", {"days": 91})], "1 to 90 days"),
        ([("buy", {"product_id": "pro_lifetime"}), ("buy", {"product_id": "pro_lifetime"})], "owns"),
        (["buy", ("change", {"product_id": "coins_100"})], "not a subscription of the group"),
        (["buy", "nonsense"], "There is no act 'nonsense'"),
        (["buy", ("cancel", {"when": "now"})], "unknown field"),
    ],
)
def test_what_makes_no_sense_is_refused_and_said(steps: list[Any], refused: str) -> None:
    with pytest.raises(Refusal, match=refused):
        live(*steps)


def test_time_in_one_step_or_in_many_ends_the_same() -> None:
    once = live(("buy", {"trial": True}), ("fail_billing", {"grace_days": 3}), "P400D")
    daily = live(("buy", {"trial": True}), ("fail_billing", {"grace_days": 3}), *["P1D"] * 400)
    assert once.books == daily.books
    assert once.sent == daily.sent
    assert daily.now == START + 400 * DAY
