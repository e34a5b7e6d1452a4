"""One cause for every event type: the actions, and the time that passes, that lead to the event."""

from collections.abc import Callable

from latchkey.domain.customers.customer import CurrencyTransaction
from latchkey.domain.customers.enrollment import Experiment, Variant, enroll
from latchkey.domain.customers.identity import told_of_id, transfer
from latchkey.domain.customers.promotion import grant
from latchkey.domain.customers.virtual_currency import move
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.stores.test_store import actions
from tests.domain.book import Book
from tests.domain.shop import (
    CATALOG,
    COINS,
    NOON,
    PRO_LIFETIME,
    PRO_MONTHLY,
    PRO_PASS,
    PRO_YEARLY,
    TEAM_MONTHLY,
    at,
    bought,
    someone,
    subscribed,
)

MONTH_END = at("2026-02-15T12:00")
TRIAL_END = NOON + 7 * DAY
ANONYMOUS = "$RCAnonymousID:" + "a" * 32


def act(book: Book, doing: Callable[[Subscription], Subscription], now: int | None = None) -> None:
    book.pass_time(book.now if now is None else now)
    book.take_in(doing(book.subscription))


def bought_a_month(book: Book) -> None:
    book.take_in(subscribed())


def bought_on_trial(book: Book) -> None:
    book.take_in(subscribed(trial=True))


def trial_converted(book: Book) -> None:
    bought_on_trial(book)
    book.pass_time(TRIAL_END)


def renewed_by_itself(book: Book) -> None:
    bought_a_month(book)
    book.pass_time(MONTH_END)


def bought_for_ever(book: Book) -> None:
    book.take_in(bought(PRO_LIFETIME))


def bought_a_pass(book: Book) -> None:
    book.take_in(bought(PRO_PASS))


def granted_by_an_operator(book: Book) -> None:
    book.change(grant(book.customer, "team", NOON + DAY, NOON))


def turned_renewal_off(book: Book) -> None:
    bought_a_month(book)
    act(book, lambda one: actions.cancel(one, NOON + DAY), NOON + DAY)


def turned_renewal_off_with_a_pause_scheduled(book: Book) -> None:
    paused(book)
    act(book, lambda one: actions.cancel(one, NOON + 2 * DAY), NOON + 2 * DAY)


def turned_renewal_on(book: Book) -> None:
    turned_renewal_off(book)
    act(book, lambda one: actions.uncancel(one, NOON + 2 * DAY), NOON + 2 * DAY)


def lifted_a_pause(book: Book) -> None:
    paused(book)
    act(book, lambda one: actions.resume(one, CATALOG, NOON + 2 * DAY), NOON + 2 * DAY)


def turned_renewal_off_in_a_trial(book: Book) -> None:
    bought_on_trial(book)
    act(book, lambda one: actions.cancel(one, NOON + DAY), NOON + DAY)


def payment_failed_with_grace(book: Book) -> None:
    bought_a_month(book)
    act(book, lambda one: actions.fail_billing(one, NOON + DAY, grace_days=6), NOON + DAY)


def payment_failed(book: Book) -> None:
    bought_a_month(book)
    act(book, lambda one: actions.fail_billing(one, NOON + DAY), NOON + DAY)


def payment_recovered(book: Book) -> None:
    payment_failed_with_grace(book)
    act(book, lambda one: actions.recover_billing(one, CATALOG, MONTH_END + DAY), MONTH_END + DAY)


def ran_out_after_renewal_was_turned_off(book: Book) -> None:
    turned_renewal_off(book)
    book.pass_time(MONTH_END)


def grace_ran_out(book: Book) -> None:
    payment_failed_with_grace(book)
    book.pass_time(MONTH_END + 6 * DAY)


def pause_began(book: Book) -> None:
    paused(book)
    book.pass_time(MONTH_END)


def pass_ran_out(book: Book) -> None:
    bought_a_pass(book)
    book.pass_time(NOON + 10 * DAY)


def refunded(book: Book) -> None:
    bought_a_month(book)
    book.take_in(actions.refund(book.subscription, NOON + DAY), NOON + DAY)


def pass_refunded(book: Book) -> None:
    bought_a_pass(book)
    book.take_in(actions.refund(book.customer.purchases[0], NOON + DAY), NOON + DAY)


def refund_reversed(book: Book) -> None:
    refunded(book)
    book.take_in(actions.reverse_refund(book.subscription, NOON + 2 * DAY), NOON + 2 * DAY)


def changed_product_now(book: Book) -> None:
    bought_a_month(book)
    act(book, lambda one: actions.change_product(one, TEAM_MONTHLY, NOON + DAY, at_renewal=False), NOON + DAY)


def changed_product_at_renewal(book: Book) -> None:
    bought_a_month(book)
    act(book, lambda one: actions.change_product(one, PRO_YEARLY, NOON + DAY, at_renewal=True), NOON + DAY)


def paused(book: Book) -> None:
    bought_a_month(book)
    act(book, lambda one: actions.pause(one, NOON + DAY, MONTH_END + 30 * DAY), NOON + DAY)


def extended(book: Book) -> None:
    bought_a_month(book)
    act(book, lambda one: actions.extend(one, NOON + DAY, until=MONTH_END + 3 * DAY), NOON + DAY)


def received_what_was_another_customers(book: Book) -> None:
    other = Book(someone("bob"))
    other.take_in(subscribed())
    moved = transfer(other.customer, book.customer, NOON + DAY)
    book.customer = moved.target_before
    book.change(moved.target, NOON + DAY)


def absorbed_an_anonymous_customer(book: Book) -> None:
    enrolled(book)
    other = Book(someone(ANONYMOUS, NOON + DAY))
    other.take_in(subscribed())
    act(other, lambda one: actions.cancel(one, NOON + DAY), NOON + DAY)
    book.absorb(other, NOON + 2 * DAY)


def took_another_id(book: Book) -> None:
    bought_a_month(book)
    book.change(told_of_id(book.customer, "anna", NOON + DAY), NOON + DAY)


def invoice_issued(book: Book) -> None:
    bought_a_month(book)
    act(book, lambda one: actions.issue_invoice(one, NOON + DAY), NOON + DAY)


def store_unreachable(book: Book) -> None:
    book.take_in(
        actions.store_outage(book.customer, PRO_MONTHLY, NOON, id="meanwhile", environment=Environment.SANDBOX)
    )


def currency_credited(book: Book) -> None:
    book.change(move(book.customer, CurrencyTransaction("key", "COIN", 250, NOON)))


def currency_debited(book: Book) -> None:
    currency_credited(book)
    book.change(move(book.customer, CurrencyTransaction("key 2", "COIN", -40, NOON)))


def currency_bought(book: Book) -> None:
    book.take_in(bought(COINS))


def enrolled(book: Book) -> None:
    book.change(enroll(book.customer, Experiment("paywall", "Paywall", (Variant("b", 1),)), NOON))
