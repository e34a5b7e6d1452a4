"""Events from the difference of two states: which are made, which are left out, and in which order."""

import pytest
from msgspec.structs import replace

from latchkey.domain.customers.customer import CurrencyTransaction
from latchkey.domain.customers.virtual_currency import move
from latchkey.domain.events.customer_event import EventType
from latchkey.domain.instants import DAY, HOUR
from latchkey.domain.purchases.purchase import Environment, MoneyBack, Reason
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.stores.test_store import actions
from tests.domain.book import Book
from tests.domain.shop import CATALOG, NOON, PRO_MONTHLY, PRO_YEARLY, TEAM_MONTHLY, at, bought, someone, subscribed

T = EventType
END = at("2026-02-15T12:00")
SUB = subscribed()


def told_by(*snapshots: Subscription) -> list[EventType]:
    """The types of the events when a real store sends these snapshots, a millisecond apart, in this order."""
    book = Book(now=END)
    for number, one in enumerate(snapshots):
        book.take_in(replace(one, store="app_store"), END - DAY + number)
    return book.types()


# Trials.


def test_a_change_at_renewal_is_announced_once_and_then_only_the_renewal_with_the_new_product() -> None:
    book = Book.of(SUB)
    change = actions.change_product(book.subscription, TEAM_MONTHLY, NOON + DAY, at_renewal=True)
    assert book.take_in(change, NOON + DAY) == [T.PRODUCT_CHANGE]
    assert book.pass_time(END) == [T.RENEWAL]
    assert book.last.product_id == "team_monthly"
    assert list(book.last.entitlements) == ["pro", "team"]


def test_a_change_that_is_called_off_is_told_back() -> None:
    book = Book.of(SUB)
    book.take_in(actions.change_product(book.subscription, TEAM_MONTHLY, NOON + DAY, at_renewal=True), NOON + DAY)
    back = actions.change_product(book.subscription, PRO_MONTHLY, NOON + 2 * DAY, at_renewal=True)
    assert book.take_in(back, NOON + 2 * DAY) == [T.PRODUCT_CHANGE]
    assert (book.last.product_id, book.last.new_product_id) == ("team_monthly", "pro_monthly")
    assert book.pass_time(END) == [T.RENEWAL]
    assert book.last.product_id == "pro_monthly"


def test_a_second_thought_about_the_next_product_is_told_anew() -> None:
    book = Book.of(SUB)
    for product in (TEAM_MONTHLY, PRO_YEARLY):
        change = actions.change_product(book.subscription, product, NOON, at_renewal=True)
        assert book.take_in(change) == [T.PRODUCT_CHANGE]
        assert book.last.new_product_id == product.id


def test_turning_renewal_off_calls_a_pending_change_off_and_has_the_last_word() -> None:
    pending = actions.change_product(SUB, TEAM_MONTHLY, NOON + 1, at_renewal=True)
    off = actions.cancel(pending, NOON + 2)
    extended = actions.extend(off, NOON + 3, until=END + DAY)

    assert told_by(SUB, pending, off)[-2:] == [T.PRODUCT_CHANGE, T.CANCELLATION]
    # Also if the snapshot of the cancellation was skipped.
    assert told_by(SUB, pending, extended)[-3:] == [T.PRODUCT_CHANGE, T.SUBSCRIPTION_EXTENDED, T.CANCELLATION]


# Refunds.


def test_a_refund_of_the_latest_period_ends_access_and_no_expiration_follows() -> None:
    book = Book.of(SUB)
    assert book.take_in(actions.refund(book.subscription, NOON + DAY), NOON + DAY) == [T.REFUND]
    assert book.holds() == []
    assert book.last.entitlements == {}
    assert book.pass_time(END + 60 * DAY) == []


def test_a_refund_of_an_older_period_only_leaves_its_date() -> None:
    book = Book.of(SUB)
    book.pass_time(END + DAY)
    first, second = book.subscription.periods
    seen = replace(book.subscription, periods=(replace(first, money_back=(MoneyBack(END + DAY),)), second))

    assert book.take_in(seen) == []
    assert book.subscription.periods[0].refunded_at == END + DAY
    assert book.holds() == ["pro"]


def test_a_refund_reversed_after_the_end_restores_nothing_that_time_has_taken() -> None:
    book = Book.of(SUB)
    book.take_in(actions.refund(book.subscription, NOON + DAY), NOON + DAY)
    told = book.take_in(actions.reverse_refund(book.subscription, END + DAY), END + DAY)
    assert told == [T.REFUND_REVERSED, T.EXPIRATION]
    assert book.holds() == []


def test_a_cancellation_that_comes_with_the_reversal_of_a_refund_has_the_last_word() -> None:
    off = actions.cancel(SUB, NOON + DAY)
    refunded = actions.refund(off, NOON + 2 * DAY)
    reversed_ = actions.reverse_refund(refunded, NOON + 3 * DAY)
    assert isinstance(reversed_, Subscription)

    assert told_by(SUB, reversed_) == [T.INITIAL_PURCHASE, T.REFUND, T.REFUND_REVERSED, T.CANCELLATION]


def test_a_reversal_in_the_millisecond_of_the_next_payment_is_told_in_every_order() -> None:
    refunded = actions.refund(SUB, NOON + DAY)
    reversed_ = actions.reverse_refund(refunded, NOON + 2 * DAY)
    assert isinstance(refunded, Subscription)
    assert isinstance(reversed_, Subscription)
    renewed = actions.renew(reversed_, CATALOG, NOON + 2 * DAY)

    assert sorted(told_by(SUB, refunded, reversed_, renewed)) == sorted(told_by(renewed))


# Skipped and late snapshots.


@pytest.mark.parametrize("seen_between", [True, False])
def test_a_second_failed_payment_is_told_though_the_recovery_was_not_seen(seen_between: bool) -> None:
    failing = actions.fail_billing(SUB, NOON + 1)
    recovered = actions.recover_billing(failing, CATALOG, NOON + 2)
    failing_again = actions.fail_billing(recovered, NOON + 3)
    between = [recovered] if seen_between else []

    assert told_by(SUB, failing, *between, failing_again) == [
        T.INITIAL_PURCHASE,
        T.BILLING_ISSUE,
        T.RENEWAL,
        T.BILLING_ISSUE,
    ]


def test_a_cancellation_of_the_new_period_is_told_though_an_older_one_was() -> None:
    off = actions.cancel(SUB, NOON + 1)
    changed = actions.change_product(off, TEAM_MONTHLY, NOON + 2, at_renewal=False)
    off_again = actions.cancel(changed, NOON + 3)

    assert told_by(SUB, off, off_again)[-2:] == [T.PRODUCT_CHANGE, T.CANCELLATION]


def test_a_cancellation_that_was_taken_back_meanwhile_may_be_left_out_but_comes_not_after() -> None:
    off = actions.cancel(SUB, NOON + 1)
    on = actions.uncancel(off, NOON + 2)

    assert told_by(SUB, on, off) == [T.INITIAL_PURCHASE]
    assert told_by(off, on, off) == [T.INITIAL_PURCHASE, T.CANCELLATION, T.UNCANCELLATION]


def test_a_store_that_tells_everything_at_once_is_retold_in_order() -> None:
    off = actions.cancel(actions.renew(subscribed(trial=True), CATALOG, NOON + 1), NOON + 2)
    assert told_by(actions.issue_invoice(off, NOON + 3)) == [
        T.TRIAL_STARTED,
        T.INITIAL_PURCHASE,
        T.INVOICE_ISSUANCE,
        T.CANCELLATION,
    ]


# Pauses.


def test_ending_a_subscription_with_a_pause_scheduled_does_not_say_that_renewal_is_on() -> None:
    book = Book.of(SUB)
    book.take_in(actions.pause(book.subscription, NOON + DAY, END + 10 * DAY), NOON + DAY)
    assert book.take_in(actions.expire(book.subscription, NOON + 2 * DAY), NOON + 2 * DAY) == [T.EXPIRATION]


# Several changes in one millisecond are still several events.


def test_pausing_resuming_and_pausing_in_one_millisecond_is_three_events() -> None:
    book = Book.of(SUB)
    for _ in range(2):
        assert book.take_in(actions.pause(book.subscription, NOON, END + DAY)) == [T.SUBSCRIPTION_PAUSED]
        assert book.take_in(actions.resume(book.subscription, CATALOG, NOON)) == [T.UNCANCELLATION]


def test_failing_recovering_and_failing_in_one_millisecond_is_three_events() -> None:
    book = Book.of(SUB)
    for _ in range(2):
        assert book.take_in(actions.fail_billing(book.subscription, NOON)) == [T.BILLING_ISSUE]
        assert book.take_in(actions.recover_billing(book.subscription, CATALOG, NOON)) == [T.RENEWAL]


def test_turning_renewal_off_and_on_many_times_in_one_millisecond_is_as_many_events() -> None:
    book = Book.of(SUB)
    for _ in range(3):
        assert book.take_in(actions.cancel(book.subscription, NOON)) == [T.CANCELLATION]
        assert book.take_in(actions.uncancel(book.subscription, NOON)) == [T.UNCANCELLATION]


# Billing.


def test_ending_in_grace_tells_the_end_now_and_no_second_billing_issue() -> None:
    book = Book.of(actions.fail_billing(SUB, NOON + DAY, grace_days=6), NOON + DAY)
    assert book.take_in(actions.expire(book.subscription, END + DAY), END + DAY) == [T.EXPIRATION]
    assert book.last.expiration_at_ms == END + DAY
    assert book.last.expiration_reason == Reason.BILLING_ERROR


def test_a_refund_in_grace_or_after_it_is_told_alone() -> None:
    for refunded_at, before in ((END + DAY, []), (END + 9 * DAY, [T.EXPIRATION])):
        book = Book.of(actions.fail_billing(SUB, NOON + DAY, grace_days=6), NOON + DAY)
        assert book.pass_time(refunded_at) == before
        refunded = actions.refund(book.subscription, refunded_at)
        assert book.take_in(refunded, refunded_at) == [T.REFUND]
        assert book.pass_time(END + 30 * DAY) == []


def test_a_grace_that_is_granted_later_is_told() -> None:
    failing = actions.fail_billing(SUB, NOON + 1)
    status = replace(failing.status, as_of=replace(failing.status.as_of, at=NOON + 2), grace_ends_at=END + DAY)
    assert told_by(SUB, failing, replace(failing, status=status)) == [
        T.INITIAL_PURCHASE,
        T.BILLING_ISSUE,
        T.BILLING_ISSUE,
    ]


def test_billing_retry_after_the_end_recovers_with_a_period_from_then() -> None:
    book = Book.of(actions.fail_billing(SUB, NOON + DAY), NOON + DAY)
    assert book.pass_time(END) == [T.EXPIRATION]
    assert book.take_in(actions.recover_billing(book.subscription, CATALOG, END + 3 * DAY), END + 3 * DAY) == [
        T.RENEWAL
    ]
    assert book.last.expiration_at_ms == at("2026-03-18T12:00")


# Other stores.


def test_the_end_of_a_renewing_subscription_waits_for_its_store_to_speak() -> None:
    book = Book.of(replace(SUB, store="app_store"))
    assert book.pass_time(END + 6 * HOUR - 1) == []
    assert book.holds() == []
    assert book.pass_time(END + 6 * HOUR) == [T.EXPIRATION]
    assert book.last.expiration_reason == Reason.UNKNOWN
    assert book.last.event_timestamp_ms == END


def test_a_renewal_that_is_told_late_follows_its_expiration() -> None:
    book = Book.of(replace(SUB, store="app_store"))
    book.pass_time(END + DAY)
    renewed = replace(actions.renew(SUB, CATALOG, END), store="app_store")
    assert book.take_in(renewed) == [T.RENEWAL]
    assert book.holds() == ["pro"]


@pytest.mark.parametrize(
    ("snapshots", "clock", "environment"),
    [
        ([], None, Environment.PRODUCTION),
        ([], "clock", Environment.SANDBOX),
        ([SUB], None, Environment.SANDBOX),
        ([SUB, replace(bought(), environment=Environment.PRODUCTION)], None, Environment.PRODUCTION),
    ],
)
def test_what_belongs_to_no_purchase_is_sandbox_for_a_tester(
    snapshots: list[Subscription], clock: str | None, environment: Environment
) -> None:
    book = Book(someone(test_clock_id=clock))
    for one in snapshots:
        book.take_in(one)
    book.change(move(book.customer, CurrencyTransaction("key", "COIN", 1, NOON)))
    assert book.last.environment == environment
