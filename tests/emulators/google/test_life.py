"""Lives in the Google Play emulator, as tables: what happens, and which notifications Google would send."""

from typing import Any

import pytest

from latchkey.domain.instants import DAY, add, parse_duration
from latchkey.domain.refusal import Refusal
from latchkey.emulators.control_requests import converted
from latchkey.emulators.emulator import FIRST_PRODUCTS
from latchkey.emulators.google import google_due_events
from latchkey.emulators.google.google_books import (
    CancelledBy,
    GoogleBooks,
    GooglePhase,
    GoogleProduct,
    GooglePurchase,
    GoogleSaleRequest,
    GoogleState,
    GoogleStep,
    buy,
)
from latchkey.emulators.google.google_emulator import ACTS
from tests.emulators.emulated_purchase import EmulatedPurchase, Step

MONTH = parse_duration("P1M")


class GoogleLife(EmulatedPurchase[GoogleBooks]):
    rules = google_due_events

    def buy(self, product_id: str = "pro_monthly:monthly", *, acknowledged: bool = True, **sale: Any) -> None:
        request = converted({"product_id": product_id, **sale}, GoogleSaleRequest)
        self.keep(buy(self.books, self.now, request, test=True))
        if acknowledged:
            self.act("acknowledge")

    def act(self, act: str, **options: Any) -> None:
        self.keep(ACTS.apply(act, options, self.books, self.now, self.id))

    def keep(self, step: GoogleStep) -> None:
        before = self.books.purchases.keys()
        super().keep(step)
        self.id = next(iter(self.books.purchases.keys() - before), self.id)

    @property
    def purchase(self) -> GooglePurchase:
        return self.books.purchases[self.id]


def live(*steps: Step) -> GoogleLife:
    """`buy` also acknowledges, unless `acknowledged` is False."""
    products = [converted(product, GoogleProduct) for product in FIRST_PRODUCTS["google"]]
    books = GoogleBooks(products={product.name: product for product in products}, series="tests")
    return GoogleLife(books).live(*steps)


PREPAID = ("buy", {"product_id": "pro_monthly:prepaid"})
BOUGHT, RENEWED, CANCELED, EXPIRED = "4 PURCHASED", "2 RENEWED", "3 CANCELED", "13 EXPIRED"
GRACE = ("fail_billing", {"grace_days": 7})

LIVES: list[tuple[str, list[Any], list[str], GoogleState]] = [
    ("bought", ["buy"], [BOUGHT], GoogleState.ACTIVE),
    ("trial that converts", [("buy", {"trial": True}), "P7D"], [BOUGHT, RENEWED], GoogleState.ACTIVE),
    ("renewals", ["buy", "P3M"], [BOUGHT, RENEWED, RENEWED, RENEWED], GoogleState.ACTIVE),
    ("cancelled", ["buy", "cancel", "P1D"], [BOUGHT, CANCELED], GoogleState.CANCELED),
    ("cancelled and over", ["buy", "cancel", "P1M"], [BOUGHT, CANCELED, EXPIRED], GoogleState.EXPIRED),
    ("restarted", ["buy", "cancel", "uncancel", "P1M"], [BOUGHT, CANCELED, "7 RESTARTED", RENEWED], GoogleState.ACTIVE),
    ("cancelled in an instalment plan", ["buy", ("cancel", {"scheduled": True}), "P1M"],
     [BOUGHT, "18 CANCELLATION_SCHEDULED", EXPIRED], GoogleState.EXPIRED),
    ("grace", ["buy", GRACE, "P1M"], [BOUGHT, "6 IN_GRACE_PERIOD"], GoogleState.IN_GRACE_PERIOD),
    ("grace that saves", ["buy", GRACE, "P1M", "P2D", "recover"], [BOUGHT, "6 IN_GRACE_PERIOD", RENEWED],
     GoogleState.ACTIVE),
    ("grace, then hold", ["buy", GRACE, "P1M", "P7D"], [BOUGHT, "6 IN_GRACE_PERIOD", "5 ON_HOLD"], GoogleState.ON_HOLD),
    ("hold that ends well", ["buy", "fail_billing", "P1M", "P5D", "recover"], [BOUGHT, "5 ON_HOLD", "1 RECOVERED"],
     GoogleState.ACTIVE),
    ("hold in vain", ["buy", "fail_billing", "P1M", "P30D"], [BOUGHT, "5 ON_HOLD", CANCELED, EXPIRED],
     GoogleState.EXPIRED),
    ("neither grace nor hold", ["buy", ("fail_billing", {"hold_days": 0}), "P1M"], [BOUGHT, CANCELED, EXPIRED],
     GoogleState.EXPIRED),
    ("cancelled on hold", ["buy", "fail_billing", "P1M", "cancel"], [BOUGHT, "5 ON_HOLD", CANCELED, EXPIRED],
     GoogleState.EXPIRED),
    ("pause planned", ["buy", "pause"], [BOUGHT, "11 PAUSE_SCHEDULE_CHANGED"], GoogleState.ACTIVE),
    ("paused", ["buy", "pause", "P1M"], [BOUGHT, "11 PAUSE_SCHEDULE_CHANGED", "10 PAUSED"], GoogleState.PAUSED),
    ("resumed by itself", ["buy", "pause", "P2M"], [BOUGHT, "11 PAUSE_SCHEDULE_CHANGED", "10 PAUSED", RENEWED],
     GoogleState.ACTIVE),
    ("resumed by hand", ["buy", "pause", "P1M", "P3D", "resume"],
     [BOUGHT, "11 PAUSE_SCHEDULE_CHANGED", "10 PAUSED", "1 RECOVERED"], GoogleState.ACTIVE),
    ("pause called off", ["buy", "pause", "resume", "P1M"],
     [BOUGHT, "11 PAUSE_SCHEDULE_CHANGED", "11 PAUSE_SCHEDULE_CHANGED", RENEWED], GoogleState.ACTIVE),
    ("deferred", ["buy", ("defer", {"days": 10}), "P1M"], [BOUGHT, "9 DEFERRED"], GoogleState.ACTIVE),
    ("refunded", ["buy", "P3D", "refund"], [BOUGHT, "12 REVOKED", "VOIDED"], GoogleState.EXPIRED),
    ("refunded, access kept", ["buy", ("refund", {"revoke": False})], [BOUGHT], GoogleState.ACTIVE),
    ("revoked", ["buy", "revoke"], [BOUGHT, "12 REVOKED"], GoogleState.EXPIRED),
    ("upgrade", ["buy", "P3D", ("change", {"product_id": "team_monthly:monthly"}), "acknowledge", "P1M"],
     [BOUGHT, BOUGHT, EXPIRED, RENEWED], GoogleState.ACTIVE),
    ("change that waits",
     ["buy", ("change", {"product_id": "pro_yearly:yearly", "deferred": True}), "acknowledge", "P1M"],
     [BOUGHT, BOUGHT, EXPIRED, RENEWED, "17 ITEMS_CHANGED"], GoogleState.ACTIVE),
    ("resubscribed after the end", ["buy", "cancel", "P40D", "resubscribe"], [BOUGHT, CANCELED, EXPIRED, BOUGHT],
     GoogleState.ACTIVE),
    ("resubscribed before the end", ["buy", "cancel", "P3D", "resubscribe"], [BOUGHT, CANCELED, BOUGHT, EXPIRED],
     GoogleState.ACTIVE),
    ("prepaid and over", [PREPAID, "P1M"], [BOUGHT, EXPIRED], GoogleState.EXPIRED),
    ("prepaid and topped up", [PREPAID, "P3D", "top_up", "acknowledge", "P1M"], [BOUGHT, BOUGHT, EXPIRED],
     GoogleState.ACTIVE),
    ("price change", ["buy", "price_change", ("price_change", {"confirmed": True})],
     [BOUGHT, "19 PRICE_CHANGE_UPDATED", "8 PRICE_CHANGE_CONFIRMED"], GoogleState.ACTIVE),
    ("pending", [("buy", {"pending": True}), "P10D"], [], GoogleState.PENDING),
    ("pending, then paid", [("buy", {"pending": True}), "P1D", "complete"], [BOUGHT], GoogleState.ACTIVE),
    ("pending, then not paid", [("buy", {"pending": True}), "decline"], ["20 PENDING_PURCHASE_CANCELED"],
     GoogleState.PENDING_PURCHASE_CANCELED),
    ("one-time purchase", [("buy", {"product_id": "pro_lifetime"}), "P1Y"], ["ONE_TIME 1"], GoogleState.ACTIVE),
    ("one-time purchase that was not paid", [("buy", {"product_id": "coins_100", "pending": True}), "decline"],
     ["ONE_TIME 2"], GoogleState.PENDING_PURCHASE_CANCELED),
    ("one-time purchase refunded", [("buy", {"product_id": "coins_100"}), "refund"], ["ONE_TIME 1", "VOIDED"],
     GoogleState.CANCELED),
    ("not acknowledged", [("buy", {"acknowledged": False}), "P3D"], [BOUGHT, "12 REVOKED", "VOIDED"],
     GoogleState.EXPIRED),
    ("one-time purchase not acknowledged", [("buy", {"product_id": "coins_100", "acknowledged": False}), "P3D"],
     ["ONE_TIME 1", "VOIDED"], GoogleState.CANCELED),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "told", "state"), [row[1:] for row in LIVES], ids=[row[0] for row in LIVES])
def test_a_life_and_what_google_tells_of_it(steps: list[Any], told: list[str], state: GoogleState) -> None:
    world = live(*steps)
    assert world.sent == told
    assert world.purchase.state is state


def test_renewals_are_numbered_as_google_numbers_them() -> None:
    purchase = live("buy", "P3M").purchase
    first = purchase.orders[0].id
    assert [order.id for order in purchase.orders] == [first, f"{first}..0", f"{first}..1", f"{first}..2"]
    for before, after in zip(purchase.orders, purchase.orders[1:], strict=False):
        assert before.ends_at == after.bought_at


def test_a_grace_period_moves_the_end_and_a_payment_within_it_keeps_the_billing_date() -> None:
    world = live("buy", GRACE, "P1M")
    paid_until = world.purchase.paid_until
    assert paid_until is not None
    assert world.purchase.expires_at == paid_until + 7 * DAY
    world.pass_by("P2D")
    world.act("recover")
    assert world.purchase.expires_at == add(paid_until, MONTH)
    on_hold = live("buy", "fail_billing", "P1M", "P5D", "recover")
    assert on_hold.purchase.expires_at == add(on_hold.now, MONTH)


def test_a_replacement_has_a_new_token_that_points_to_the_old_one() -> None:
    world = live("buy")
    old = world.id
    world.act("change", product_id="team_monthly:monthly")
    assert world.purchase.replaces == old != world.id
    assert world.books.purchases[old].cancelled_by is CancelledBy.REPLACEMENT
    assert world.purchase.acknowledged is False


def test_a_change_that_waits_keeps_the_paid_time() -> None:
    world = live("buy", "P3D")
    ends = world.purchase.expires_at
    world.act("change", product_id="pro_yearly:yearly", deferred=True)
    assert (world.purchase.expires_at, world.purchase.product) == (ends, "pro_monthly:monthly")
    world.act("acknowledge")
    world.pass_by("P1M")
    assert world.purchase.product == "pro_yearly:yearly"


def test_a_top_up_adds_its_time() -> None:
    world = live(PREPAID, "P3D")
    ends = world.purchase.expires_at or 0
    world.act("top_up")
    assert world.purchase.expires_at == add(ends, MONTH)


def test_an_introductory_price_lasts_for_its_periods() -> None:
    purchase = live(("buy", {"product_id": "basic_monthly:monthly", "intro": True}), "P4M").purchase
    assert [order.phase for order in purchase.orders] == [GooglePhase.INTRODUCTORY] * 3 + [GooglePhase.BASE] * 2
    assert [order.price.micros for order in purchase.orders] == [990_000] * 3 + [4_990_000] * 2


def test_ids_have_googles_form_and_differ() -> None:
    world = live("buy", ("buy", {"product_id": "coins_100"}))
    one, other = world.books.purchases.values()
    assert one.token != other.token
    assert len(one.token) > 100
    assert [len(part) for part in one.orders[0].id.removeprefix("GPA.").split("-")] == [4, 4, 4, 5]


@pytest.mark.parametrize(
    ("steps", "refused"),
    [
        (["buy", "buy"], "has 'pro_monthly:monthly' already"),
        ([("buy", {"trial": True}), "cancel", "P1M", ("buy", {"trial": True})], "used the trial"),
        ([("buy", {"product_id": "pro_yearly:yearly", "trial": True})], "no trial on offer"),
        ([("buy", {"product_id": "pro_monthly"})], "It sells: .*pro_monthly:monthly"),
        ([("buy", {"account_token": "x" * 65})], "at most 64"),
        (["buy", "cancel", "cancel"], "off already"),
        (["buy", "uncancel"], "on already"),
        (["buy", "recover"], "nothing to recover"),
        (["buy", "resume"], "not paused"),
        (["buy", ("pause", {"for": "soon"})], "is not an ISO 8601 duration"),
        (["buy", "refund", "refund"], "not refunded already"),
        (["buy", "top_up"], "prepaid"),
        (["buy", "resubscribe"], "cancelled or has ended"),
        (["buy", "complete"], "No payment is pending"),
        (["buy", "cancel", "P1M", "defer"], "use resubscribe"),
        ([("buy", {"product_id": "coins_100"}), ("buy", {"product_id": "coins_100"})], "not consumed it"),
        ([("buy", {"product_id": "coins_100"}), "cancel"], "one-time purchase"),
        (["buy", "consume"], "cannot be consumed"),
    ],
)
def test_what_makes_no_sense_is_refused_and_said(steps: list[Any], refused: str) -> None:
    with pytest.raises(Refusal, match=refused):
        live(*steps)


def test_a_consumed_purchase_can_be_bought_again() -> None:
    coins = ("buy", {"product_id": "coins_100"})
    assert len(live(coins, "consume", coins).books.purchases) == 2


def test_time_in_one_step_or_in_many_ends_the_same() -> None:
    once = live(("buy", {"trial": True}), GRACE, "P400D")
    daily = live(("buy", {"trial": True}), GRACE, *["P1D"] * 400)
    assert once.books == daily.books
    assert once.sent == daily.sent
