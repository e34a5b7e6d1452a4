"""Lives in the App Store emulator. What it sends of them is in the table of `tests/stores/apple`."""

from typing import Any

import pytest

from latchkey.domain.instants import DAY, Ms, add, parse_duration
from latchkey.domain.refusal import Refusal
from latchkey.emulators.apple import apple_acts
from latchkey.emulators.apple.apple_books import (
    AppleBooks,
    AppleProduct,
    ApplePurchase,
    AppleSaleRequest,
    AppleStatus,
    buy,
)
from latchkey.emulators.apple.apple_emulator import ACTS
from latchkey.emulators.control_requests import converted
from latchkey.emulators.emulator import FIRST_PRODUCTS
from tests.emulators.emulated_purchase import EmulatedPurchase, Step

START: Ms = 1_800_000_000_000
MONTH = parse_duration("P1M")


class AppleLife(EmulatedPurchase[AppleBooks]):
    rules = apple_acts

    def buy(self, product_id: str = "pro_monthly", **sale: Any) -> None:
        request = converted({"product_id": product_id, **sale}, AppleSaleRequest)
        books, notices = buy(self.books, self.now, request)
        assert notices[0].purchase is not None
        self.id = notices[0].purchase.id
        self.keep((books, notices))

    def act(self, act: str, **options: Any) -> None:
        self.keep(ACTS.apply(act, options, self.books, self.now, self.id))

    @property
    def purchase(self) -> ApplePurchase:
        return self.books.purchases[self.id]


def live(*steps: Step) -> AppleLife:
    products = [converted(product, AppleProduct) for product in FIRST_PRODUCTS["apple"]]
    return AppleLife(AppleBooks(products={product.id: product for product in products})).live(*steps)


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
