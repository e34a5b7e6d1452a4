"""Lives at the Stripe emulator, as tables: what happens, and which events Stripe would send."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from latchkey.domain.instants import SECOND
from latchkey.domain.refusal import Invalid, NotFound, Refusal
from latchkey.emulators.control_requests import converted
from latchkey.emulators.emulator import FIRST_PRODUCTS, ExpectedState
from latchkey.emulators.stripe import stripe_due_events
from latchkey.emulators.stripe.stripe_books import (
    DAY_S,
    Seconds,
    StripeBooks,
    StripeInvoice,
    StripeStep,
    StripeSubscription,
    smallest_units,
)
from latchkey.emulators.stripe.stripe_changeset import StripeChangeset
from latchkey.emulators.stripe.stripe_emulator import SENT, act_on
from latchkey.emulators.stripe.stripe_expected_state import expected_of_session, expected_of_subscription
from latchkey.emulators.stripe.stripe_purchases import StripeProductRequest, StripeSaleRequest
from tests.emulators.emulated_purchase import EmulatedPurchase, Step

T = TypeVar("T")
START: Seconds = 1_801_396_800

SHORT = {
    "customer.subscription.created": "created",
    "customer.subscription.updated": "updated",
    "customer.subscription.deleted": "deleted",
    "customer.subscription.paused": "paused",
    "customer.subscription.resumed": "resumed",
    "invoice.finalized": "finalized",
    "invoice.paid": "paid",
    "invoice.payment_failed": "failed",
    "invoice.voided": "voided",
    "invoice.marked_uncollectible": "written off",
    "checkout.session.completed": "checkout",
}


class StripeLife(EmulatedPurchase[StripeBooks]):
    rules = stripe_due_events
    unit = SECOND
    # The 31st of January 2027, so that months of different lengths follow.
    start = START * SECOND

    def buy(self, product_id: str = "pro_monthly", **sale: Any) -> None:
        request = converted({"product_id": product_id, **sale}, StripeSaleRequest)
        self.id = self.change(request.apply)

    def act(self, act: str, **options: Any) -> None:
        self.change(lambda changes: act_on(changes, self.id, act, options))

    def change(self, change: Callable[[StripeChangeset], T]) -> T:
        changes = StripeChangeset(self.books, self.now // SECOND)
        done = change(changes)
        self.keep(changes.step())
        return done

    def keep(self, step: StripeStep) -> None:
        self.books = step[0]
        self.sent += [SHORT.get(event.type, event.type) for event in step[1] if event.type in SENT]

    @property
    def subscription(self) -> StripeSubscription:
        return self.books.subscriptions[self.id]

    @property
    def invoices(self) -> list[StripeInvoice]:
        return list(self.books.invoices.values())

    @property
    def expected(self) -> ExpectedState:
        if self.id in self.books.sessions:
            return expected_of_session(self.books, self.books.sessions[self.id])[0]
        return expected_of_subscription(self.books, self.subscription, self.now // SECOND)


def live(*steps: Step) -> StripeLife:
    life = StripeLife(StripeBooks(series="tests"))
    for product in FIRST_PRODUCTS["stripe"]:
        life.change(converted(product, StripeProductRequest).apply)
    return life.live(*steps)


BOUGHT = ["created", "finalized", "paid"]
RENEWED = ["updated", "finalized", "paid"]
FAILED = ["updated", "finalized", "failed", "updated"]
TRIAL = ("buy", {"trial": True})
UNPAID = ("fail_billing", {"then": "unpaid"})
KEPT = ("fail_billing", {"then": "past_due", "retry_days": []})
SENT_INVOICE = ("buy", {"send_invoice": True, "days_until_due": 14})

LIVES: list[tuple[str, list[Any], list[str], str]] = [
    ("bought", ["buy"], BOUGHT, "active"),
    ("in a checkout", [("buy", {"checkout": True})], [*BOUGHT, "checkout"], "active"),
    ("renewals", ["buy", "P2M"], [*BOUGHT, *RENEWED, *RENEWED], "active"),
    ("trial", [TRIAL], BOUGHT, "trialing"),
    ("trial that converts", [TRIAL, "P7D"], [*BOUGHT, *RENEWED], "active"),
    ("trial made longer", [TRIAL, ("extend_trial", {"days": 5}), "P8D"], [*BOUGHT, "updated"], "trialing"),
    (
        "free time for a paid subscription",
        ["buy", "P1D", ("extend_trial", {"days": 3})],
        [*BOUGHT, "updated", "finalized", "paid"],
        "trialing",
    ),
    ("trial cancelled", [TRIAL, "cancel", "P7D"], [*BOUGHT, "updated", "deleted"], "canceled"),
    ("trial without a card, cancelled", [("buy", {"trial": True, "no_card": "cancel"}), "P7D"],
     [*BOUGHT, "deleted"], "canceled"),
    ("trial without a card, paused", [("buy", {"trial": True, "no_card": "pause"}), "P7D"],
     [*BOUGHT, "updated", "paused"], "paused"),
    ("and resumed", [("buy", {"trial": True, "no_card": "pause"}), "P7D", "resume"],
     [*BOUGHT, "updated", "paused", "updated", "resumed", "finalized", "paid"], "active"),
    ("cancelled", ["buy", "cancel", "P1D"], [*BOUGHT, "updated"], "active"),
    ("cancelled and over", ["buy", "cancel", "P1M"], [*BOUGHT, "updated", "deleted"], "canceled"),
    ("uncancelled", ["buy", "cancel", "uncancel", "P1M"], [*BOUGHT, "updated", "updated", *RENEWED], "active"),
    ("cancelled now", ["buy", "cancel_now"], [*BOUGHT, "deleted"], "canceled"),
    ("first payment waits", [("buy", {"incomplete": True})], ["created", "finalized"], "incomplete"),
    ("and comes", [("buy", {"incomplete": True}), "pay"], ["created", "finalized", "paid", "updated"], "active"),
    ("and never comes", [("buy", {"incomplete": True}), "P1D"], ["created", "finalized", "voided", "updated"],
     "incomplete_expired"),
    ("first payment declined", [("buy", {"declined": True})], ["created", "finalized", "failed"], "incomplete"),
    ("payment fails", ["buy", "fail_billing", "P1M"], [*BOUGHT, *FAILED], "past_due"),
    ("and is recovered", ["buy", "fail_billing", "P1M", "P2D", "recover"], [*BOUGHT, *FAILED, "paid", "updated"],
     "active"),
    ("and is given up", ["buy", "fail_billing", "P1M", "P20D"],
     [*BOUGHT, *FAILED, "failed", "failed", "failed", "deleted"], "canceled"),
    ("and stays unpaid", ["buy", UNPAID, "P1M", "P20D"], [*BOUGHT, *FAILED, "failed", "failed", "failed", "updated"],
     "unpaid"),
    ("and stays past due", ["buy", KEPT, "P2M"], [*BOUGHT, *FAILED, "updated", "finalized", "failed"],
     "past_due"),
    ("unpaid, then paid", ["buy", UNPAID, "P1M", "P20D", "recover"],
     [*BOUGHT, *FAILED, "failed", "failed", "failed", "updated", "paid", "updated"], "active"),
    ("collection paused", ["buy", "pause", "P1M"], [*BOUGHT, "updated", "updated", "voided"], "active"),
    ("paused for a time", ["buy", ("pause", {"for": "P40D"}), "P2M"],
     [*BOUGHT, "updated", "updated", "voided", "updated", *RENEWED], "active"),
    ("written off in the pause", ["buy", ("pause", {"behavior": "mark_uncollectible"}), "P1M", "resume"],
     [*BOUGHT, "updated", "updated", "written off", "updated"], "active"),
    ("a draft in the pause", ["buy", ("pause", {"behavior": "keep_as_draft"}), "P1M", "resume", "finalize", "pay"],
     [*BOUGHT, "updated", "updated", "updated", "finalized", "paid"], "active"),
    ("upgrade now", ["buy", "P10D", ("change", {"product_id": "team_monthly"})], [*BOUGHT, *RENEWED], "active"),
    ("upgrade billed later", ["buy", ("change", {"product_id": "team_monthly", "proration": "create_prorations"})],
     [*BOUGHT, "updated"], "active"),
    ("another interval", ["buy", "P10D", ("change", {"product_id": "pro_yearly", "proration": "none"})],
     [*BOUGHT, *RENEWED], "active"),
    ("downgrade later", ["buy", ("change", {"product_id": "basic_monthly", "deferred": True}), "P1M"],
     [*BOUGHT, "updated", *RENEWED], "active"),
    ("refund", ["buy", "refund"], [*BOUGHT, "refund.created", "charge.refunded"], "active"),
    ("refund that fails", ["buy", "refund", "fail_refund"],
     [*BOUGHT, "refund.created", "charge.refunded", "refund.updated", "refund.failed"], "active"),
    ("dispute lost", ["buy", "dispute", "lose_dispute"],
     [*BOUGHT, "charge.dispute.funds_withdrawn"], "active"),
    ("dispute won", ["buy", "dispute", "win_dispute"],
     [*BOUGHT, "charge.dispute.funds_withdrawn", "charge.dispute.funds_reinstated"],
     "active"),
    ("invoice sent", [SENT_INVOICE], ["created", "finalized"], "active"),
    ("invoice sent and paid", [SENT_INVOICE, "P3D", "pay", "P20D"], ["created", "finalized", "paid"], "active"),
    ("invoice sent and overdue", [SENT_INVOICE, "P15D"], ["created", "finalized", "updated"], "past_due"),
    ("draft for an hour", [("buy", {"draft_minutes": 60}), "P1M"], [*BOUGHT, "updated"], "active"),
    ("then charged", [("buy", {"draft_minutes": 60}), "P1M", "PT1H"], [*BOUGHT, *RENEWED], "active"),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "told", "status"), [row[1:] for row in LIVES], ids=[row[0] for row in LIVES])
def test_a_life_sends_the_events_that_stripe_sends(steps: list[Any], told: list[str], status: str) -> None:
    world = live(*steps)
    assert (world.sent, world.subscription.status) == (told, status)


def test_billing_dates_follow_the_day_of_the_first_payment() -> None:
    ends = [invoice.lines[0].ends for invoice in live("buy", "P4M").invoices]
    days = [(end - START) // DAY_S for end in ends]
    assert days == [28, 59, 89, 120, 150]


def test_an_upgrade_credits_the_old_price_and_debits_the_new_for_the_time_left() -> None:
    world = live("buy", "P14D", ("change", {"product_id": "team_monthly"}))
    credit, debit = world.invoices[-1].lines
    assert (credit.amount, debit.amount) == (-500, 1500)
    assert (credit.proration, debit.starts, debit.ends) == (True, world.now // SECOND, world.subscription.ends)
    assert (world.invoices[-1].amount_paid, world.expected.product_id) == (1000, "team_monthly:price_team_monthly")


def test_a_downgrade_leaves_a_credit_that_the_next_invoice_uses_up() -> None:
    world = live(("buy", {"product_id": "team_monthly"}), "P14D", ("change", {"product_id": "basic_monthly"}))
    (customer,) = world.books.customers.values()
    assert (world.invoices[-1].status, world.invoices[-1].amount_paid, customer.balance) == ("paid", 0, -1250)
    world.pass_by("P1M")
    (customer,) = world.books.customers.values()
    assert (world.invoices[-1].amount_due, customer.balance) == (0, -751)


def test_prorations_that_wait_come_with_the_next_invoice() -> None:
    world = live("buy", "P14D", ("change", {"product_id": "team_monthly", "proration": "create_prorations"}))
    assert len(world.subscription.pending) == 2
    world.pass_by("P1M")
    assert [line.amount for line in world.invoices[-1].lines] == [-500, 1500, 2999]
    assert not world.subscription.pending


def test_another_interval_begins_a_new_period_with_a_credit() -> None:
    world = live("buy", "P14D", ("change", {"product_id": "pro_yearly"}))
    credit, full = world.invoices[-1].lines
    assert (credit.amount, full.amount, full.starts) == (-500, 7999, world.now // SECOND)
    assert world.subscription.anchor == world.now // SECOND


TRUTHS: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("bought", ["buy"], {"active": True, "auto_renew": True, "periods": 1}),
    ("trial", [TRIAL], {"active": True, "in_trial": True}),
    ("trial made longer, then not paid", [TRIAL, ("extend_trial", {"days": 10}), "fail_billing", "P18D"],
     {"active": False, "ends_at": (START + 17 * DAY_S) * 1000}),
    ("cancelled", ["buy", "cancel"], {"active": True, "auto_renew": False}),
    ("incomplete", [("buy", {"incomplete": True})], {"active": False, "periods": 0}),
    ("past due", ["buy", "fail_billing", "P1M", "P1D"], {"active": True, "billing_problem": True}),
    ("unpaid", ["buy", UNPAID, "P1M", "P20D"], {"active": False}),
    ("refunded", ["buy", "refund"], {"active": False}),
    ("refunded in part", ["buy", ("refund", {"amount": 3.0})], {"active": True, "refunded_at": None}),
    ("refunded in two parts", ["buy", ("refund", {"amount": 3.0}), "refund"], {"active": False}),
    ("refund failed", ["buy", "refund", "fail_refund"], {"active": True, "refunded_at": None}),
    ("disputed", ["buy", "dispute"], {"active": False}),
    ("dispute lost", ["buy", "dispute", "lose_dispute"], {"active": False}),
    ("dispute won", ["buy", "dispute", "win_dispute"], {"active": True, "refunded_at": None}),
    ("renewed after a refund", ["buy", "refund", "P1M"], {"active": True, "periods": 2}),
    ("paused, the paid time over", ["buy", "pause", "P1M", "P1D"], {"active": False}),
    ("sent, not paid", [SENT_INVOICE], {"active": False, "periods": 0}),
    ("not charged yet", [("buy", {"draft_minutes": 60}), "P1M", "PT10M"], {"active": True, "periods": 1}),
    ("changed later", ["buy", ("change", {"product_id": "pro_yearly", "deferred": True})],
     {"next_product_id": "pro_yearly:price_pro_yearly"}),
    ("bought once", [("buy", {"product_id": "coins_100"})], {"active": True, "kind": "one_time", "ends_at": None}),
    ("bought once, refunded", [("buy", {"product_id": "coins_100"}), "refund"], {"active": False}),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "true"), [row[1:] for row in TRUTHS], ids=[row[0] for row in TRUTHS])
def test_the_truth_of_a_purchase(steps: list[Any], true: dict[str, Any]) -> None:
    truth = live(*steps).expected
    assert {name: getattr(truth, name) for name in true} == true


REFUSED: list[tuple[list[Any], str]] = [
    (["buy", "uncancel"], "not cancelled"),
    (["buy", "cancel", "cancel"], "cancelled already"),
    (["buy", "cancel_now", "cancel"], "has ended"),
    (["buy", "recover"], "nothing to recover"),
    (["buy", "pay"], "No invoice is open"),
    (["buy", "finalize"], "No invoice is a draft"),
    (["buy", "resume"], "not paused"),
    (["buy", "fail_refund"], "Nothing was refunded"),
    (["buy", "refund", "refund"], "already been refunded"),
    (["buy", ("refund", {"amount": 10.0})], "greater than unrefunded"),
    (["buy", ("refund", {"payment": "in_other"})], "no payment"),
    (["buy", "dispute", "refund"], "charged back"),
    (["buy", "win_dispute"], "No dispute is open"),
    ([TRIAL, "refund"], "Nothing was paid"),
    (["buy", ("change", {"product_id": "pro_monthly"})], "already"),
    (["buy", ("change", {"product_id": "coins_100"})], "paid once"),
    (["buy", ("change", {"product_id": "nothing"})], "sells no product"),
    ([("buy", {"incomplete": True}), "cancel"], "use pay"),
    ([("buy", {"product_id": "coins_100"}), "cancel"], "one-time purchase"),
    ([("buy", {"product_id": "pro_yearly", "trial": True})], "no trial"),
]


@pytest.mark.parametrize(("steps", "words"), REFUSED, ids=[row[1] for row in REFUSED])
def test_what_makes_no_sense_is_refused(steps: list[Any], words: str) -> None:
    with pytest.raises(Refusal) as refusal:
        live(*steps)
    assert words in refusal.value.message


@pytest.mark.parametrize(
    ("amount", "currency", "units"),
    [(9.99, "usd", 999), (1200, "jpy", 1200), (1.234, "kwd", 1234), (500, "isk", 50_000), (7, "ugx", 700)],
)
def test_amounts_are_in_the_smallest_unit_of_their_currency(amount: float, currency: str, units: int) -> None:
    assert smallest_units(amount, currency) == units


def test_an_amount_with_too_many_decimals_is_refused() -> None:
    with pytest.raises(Invalid):
        smallest_units(1.5, "jpy")


def test_a_product_with_two_prices_is_bought_by_its_price() -> None:
    world = live()
    second = {"id": "pro_monthly", "price_id": "price_eur", "price": 8.99, "currency": "EUR", "period": "P1M"}
    world.change(converted(second, StripeProductRequest).apply)
    with pytest.raises(NotFound):
        world.buy("pro_monthly")
    world.buy("pro_monthly:price_eur")
    assert world.subscription.currency == "eur"
