"""What customers of the test store contribute to the figures, read at different instants."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from latchkey.domain.access.entitlements import accesses
from latchkey.domain.charts.facts.segments import segments
from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.identity import merge
from latchkey.domain.customers.promotion import grant
from latchkey.domain.figures.lines import Line, contributions
from latchkey.domain.figures.tally import Tally, total
from latchkey.domain.instants import DAY, Duration, Ms
from latchkey.domain.money import Price
from latchkey.domain.purchases.purchase import Environment, Ownership
from latchkey.domain.purchases.subscription import PeriodType, Subscription
from latchkey.domain.tariff.tariff import NO_TARIFF
from latchkey.stores.test_store import actions
from tests.domain import causes
from tests.domain.book import Book
from tests.domain.causes import MONTH_END, TRIAL_END
from tests.domain.lives import Life, lives
from tests.domain.shop import (
    CATALOG,
    COINS,
    NOON,
    PRO_LIFETIME,
    PRO_MONTHLY,
    PRO_PASS,
    PRO_YEARLY,
    at,
    bought,
    someone,
    subscribed,
)

FOR_EVER: Ms = at("2190-01-01")
MONTHLY = 9_990_000


def lines(customer: Customer) -> list[Line]:
    """What purchases contribute. That the customer is new has tests of its own below."""
    every = [line for mine in contributions(customer, CATALOG).values() for line in mine]
    sold = [line._replace(tally=line.tally._replace(newcomers=0)) for line in every]
    return [line for line in sold if line.tally != Tally()]


def newcomers(customer: Customer) -> list[tuple[Ms, Environment, int]]:
    every = [line for mine in contributions(customer, CATALOG).values() for line in mine]
    return [(line.at, line.environment, line.tally.newcomers) for line in every if line.tally.newcomers]


def until(customer: Customer, instant: Ms, currency: str | None = None) -> Tally:
    """All that has happened by an instant."""
    return total(line.tally for line in lines(customer) if line.at <= instant and currency in (None, line.currency))


def test_a_month_is_active_from_its_purchase_until_its_end() -> None:
    book = Book()
    causes.bought_a_month(book)
    assert until(book.customer, NOON - 1) == Tally()
    assert until(book.customer, NOON) == Tally(active=1, mrr=MONTHLY, payments=1, paid=MONTHLY)
    assert until(book.customer, MONTH_END - 1).active == 1
    assert until(book.customer, MONTH_END) == Tally(payments=1, paid=MONTHLY, expired=1)


def test_a_renewal_moves_the_end_and_is_a_payment() -> None:
    book = Book()
    causes.renewed_by_itself(book)
    assert until(book.customer, MONTH_END) == Tally(active=1, mrr=MONTHLY, payments=2, paid=2 * MONTHLY)
    assert until(book.customer, FOR_EVER).expired == 1


def test_a_year_brings_a_twelfth_a_month() -> None:
    book = Book()
    book.take_in(subscribed(PRO_YEARLY))
    assert until(book.customer, NOON).mrr == round(79_990_000 / 12)
    assert until(book.customer, NOON).paid == 79_990_000


def test_the_price_is_what_was_paid_and_not_what_the_catalog_says_today() -> None:
    book = Book()
    causes.bought_a_month(book)
    dearer = replace(CATALOG, products={PRO_MONTHLY.id: replace(PRO_MONTHLY, price=Price(50_000_000, "EUR"))})
    assert contributions(book.customer, dearer) == contributions(book.customer, CATALOG)


def test_a_product_nobody_knows_is_as_long_as_its_period() -> None:
    book = Book()
    causes.bought_a_month(book)
    assert contributions(book.customer, replace(CATALOG, products={})) == contributions(book.customer, CATALOG)


def test_a_trial_is_no_subscription_until_it_is_paid() -> None:
    book = Book()
    causes.bought_on_trial(book)
    assert until(book.customer, NOON) == Tally(trials=1, trials_started=1)
    assert until(book.customer, TRIAL_END) == Tally(trials_started=1)
    book.pass_time(TRIAL_END)
    # A trial counts as kept only after its end: while it runs, the result is unknown.
    assert until(book.customer, TRIAL_END - 1) == Tally(trials=1, trials_started=1)
    assert until(book.customer, TRIAL_END) == Tally(
        active=1, mrr=MONTHLY, payments=1, paid=MONTHLY, trials_started=1, trials_kept=1, trials_converted=1
    )


def test_a_trial_that_is_cancelled_runs_to_its_end_and_is_no_churn() -> None:
    book = Book()
    causes.turned_renewal_off_in_a_trial(book)
    assert until(book.customer, TRIAL_END - 1).trials == 1
    assert until(book.customer, FOR_EVER) == Tally(trials_started=1)


def test_a_cancelled_subscription_counts_until_it_expires() -> None:
    book = Book()
    causes.turned_renewal_off(book)
    assert until(book.customer, MONTH_END - 1) == Tally(active=1, mrr=MONTHLY, payments=1, paid=MONTHLY)
    assert until(book.customer, MONTH_END).expired == 1


def test_a_grace_period_counts_and_its_end_is_the_end() -> None:
    book = Book()
    causes.payment_failed_with_grace(book)
    assert until(book.customer, MONTH_END + 6 * DAY - 1).active == 1
    assert until(book.customer, MONTH_END + 6 * DAY) == Tally(payments=1, paid=MONTHLY, expired=1)


def test_a_payment_made_good_in_the_grace_period_leaves_no_gap() -> None:
    book = Book()
    causes.payment_recovered(book)
    assert until(book.customer, MONTH_END).active == until(book.customer, MONTH_END + DAY).active == 1
    assert until(book.customer, MONTH_END + DAY).expired == 0
    assert until(book.customer, MONTH_END + DAY).payments == 2


def test_a_payment_made_good_too_late_is_a_return() -> None:
    book = Book()
    causes.payment_failed(book)
    causes.act(book, lambda one: actions.recover_billing(one, CATALOG, MONTH_END + 9 * DAY), MONTH_END + 9 * DAY)
    assert until(book.customer, MONTH_END + 8 * DAY).active == 0
    after = until(book.customer, MONTH_END + 9 * DAY)
    assert (after.active, after.expired, after.resubscribed) == (1, 1, 1)


def test_who_buys_anew_after_an_end_has_come_back() -> None:
    book = Book()
    causes.ran_out_after_renewal_was_turned_off(book)
    book.take_in(subscribed(PRO_YEARLY, MONTH_END + DAY, id="again"), MONTH_END + DAY)
    after = until(book.customer, MONTH_END + DAY)
    assert (after.active, after.expired, after.resubscribed) == (1, 1, 1)


def test_one_end_is_made_good_once() -> None:
    book = Book()
    causes.ran_out_after_renewal_was_turned_off(book)
    for number, product in enumerate((PRO_YEARLY, PRO_MONTHLY)):
        book.take_in(subscribed(product, MONTH_END + DAY, id=f"again {number}"), MONTH_END + DAY)
    after = until(book.customer, MONTH_END + DAY)
    assert (after.active, after.expired, after.resubscribed) == (2, 1, 1)


def test_a_second_subscription_beside_the_first_is_no_return() -> None:
    book = Book()
    causes.bought_a_month(book)
    book.take_in(subscribed(PRO_YEARLY, NOON + DAY, id="more"), NOON + DAY)
    assert until(book.customer, NOON + DAY) == Tally(
        active=2, mrr=MONTHLY + 6_665_833, payments=2, paid=MONTHLY + 79_990_000
    )


def test_a_refund_ends_the_subscription_and_takes_its_payment_back_where_it_was_made() -> None:
    book = Book()
    causes.refunded(book)
    assert until(book.customer, NOON) == Tally(
        active=1, mrr=MONTHLY, payments=1, paid=MONTHLY, refunds=1, refunded=MONTHLY
    )
    assert until(book.customer, NOON).revenue == 0
    assert until(book.customer, NOON + DAY).active == 0
    assert until(book.customer, NOON + DAY).expired == 1


def test_a_refund_that_was_reversed_never_was() -> None:
    book = Book()
    causes.refund_reversed(book)
    assert until(book.customer, NOON + DAY) == Tally(active=1, mrr=MONTHLY, payments=1, paid=MONTHLY)


def test_a_change_of_product_goes_on_with_the_new_price() -> None:
    book = Book()
    causes.changed_product_now(book)
    assert until(book.customer, NOON + DAY) == Tally(active=1, mrr=29_990_000, payments=2, paid=MONTHLY + 29_990_000)
    assert until(book.customer, FOR_EVER).expired == 1


def test_a_change_at_renewal_changes_the_month_with_the_renewal() -> None:
    book = Book()
    causes.changed_product_at_renewal(book)
    assert until(book.customer, MONTH_END - 1).mrr == MONTHLY
    book.pass_time(MONTH_END)
    assert until(book.customer, MONTH_END).mrr == 6_665_833


def test_a_trial_that_changes_to_a_paid_product_was_kept() -> None:
    book = Book()
    causes.bought_on_trial(book)
    causes.act(book, lambda one: actions.change_product(one, PRO_YEARLY, NOON + DAY, at_renewal=False), NOON + DAY)
    after = until(book.customer, NOON + DAY)
    assert (after.active, after.trials, after.trials_kept, after.trials_converted) == (1, 0, 1, 1)


def test_a_pause_is_an_end_and_a_return() -> None:
    book = Book()
    causes.paused(book)
    book.pass_time(MONTH_END + 30 * DAY)
    assert until(book.customer, MONTH_END).active == 0
    after = until(book.customer, MONTH_END + 30 * DAY)
    assert (after.active, after.expired, after.resubscribed) == (1, 1, 1)


def test_an_extension_moves_the_end_and_costs_nothing() -> None:
    book = Book()
    causes.extended(book)
    assert until(book.customer, MONTH_END + 3 * DAY - 1) == Tally(active=1, mrr=MONTHLY, payments=1, paid=MONTHLY)
    assert until(book.customer, MONTH_END + 3 * DAY).active == 0


def test_one_time_purchases_are_revenue_and_no_subscription() -> None:
    book = Book()
    for number, product in enumerate((PRO_LIFETIME, COINS)):
        book.take_in(bought(product, id=f"one {number}"))
    assert until(book.customer, FOR_EVER) == Tally(payments=2, paid=199_000_000 + 1_990_000)


def test_a_refunded_pass_is_a_refund() -> None:
    book = Book()
    causes.pass_refunded(book)
    assert until(book.customer, NOON, "EUR") == Tally(
        payments=1,
        paid=4_990_000,
        refunds=1,
        refunded=4_990_000,
        converted=1,
        paid_usd=5_489_000,
        refunded_usd=5_489_000,
    )


def test_each_currency_has_its_own_money() -> None:
    book = Book()
    causes.bought_a_month(book)
    book.take_in(bought(PRO_PASS))
    assert until(book.customer, NOON, "EUR") == Tally(payments=1, paid=4_990_000, converted=1, paid_usd=5_489_000)
    assert until(book.customer, NOON, "USD").paid == MONTHLY


def test_a_change_to_another_currency_ends_in_one_and_begins_in_the_other() -> None:
    euros = replace(PRO_YEARLY, price=Price(60_000_000, "EUR"))
    book = Book()
    causes.bought_a_month(book)
    causes.act(book, lambda one: actions.change_product(one, euros, NOON + DAY, at_renewal=False), NOON + DAY)
    assert until(book.customer, NOON + DAY, "USD") == Tally(payments=1, paid=MONTHLY)
    euros_now = until(book.customer, NOON + DAY, "EUR")
    assert euros_now == Tally(
        active=1,
        mrr=5_000_000,
        payments=1,
        paid=60_000_000,
        converted=1,
        paid_usd=66_000_000,
        active_usd=1,
        mrr_usd=5_500_000,
    )
    assert euros_now.in_usd("EUR")._replace(converted=0, paid_usd=0, active_usd=0, mrr_usd=0) == Tally(
        active=1, mrr=5_500_000, payments=1, paid=66_000_000
    )


def test_a_payment_without_a_rate_is_counted_in_its_currency_and_not_in_usd() -> None:
    book = Book(catalog=replace(CATALOG, tariff=NO_TARIFF))
    book.take_in(bought(PRO_PASS))
    sum_of_euros = until(book.customer, NOON, "EUR")
    assert sum_of_euros == Tally(payments=1, paid=4_990_000)
    assert sum_of_euros.in_usd("EUR") == Tally()
    assert sum_of_euros.in_usd("USD") == sum_of_euros


def test_a_part_given_back_is_refunded_money_and_no_refund() -> None:
    book = Book()
    book.take_in(replace(bought(PRO_PASS), given_back=1_990_000))
    assert until(book.customer, NOON, "EUR") == Tally(
        payments=1, paid=4_990_000, refunded=1_990_000, converted=1, paid_usd=5_489_000, refunded_usd=2_189_000
    )


def test_what_costs_nothing_is_no_money() -> None:
    given_for_nothing = Book()
    given_for_nothing.change(grant(given_for_nothing.customer, "team", None, NOON))
    causes.store_unreachable(given_for_nothing)
    assert lines(given_for_nothing.customer) == []
    free = subscribed(replace(PRO_MONTHLY, price=Price(0, "USD")))
    book = Book()
    book.take_in(free)
    assert until(book.customer, NOON) == Tally(active=1)


def test_what_the_family_shares_is_counted_with_whoever_paid() -> None:
    book = Book()
    book.take_in(replace(subscribed(), ownership=Ownership.FAMILY_SHARED))
    book.take_in(replace(bought(), ownership=Ownership.FAMILY_SHARED))
    assert lines(book.customer) == []


def test_a_promotional_period_is_neither_trial_nor_paid() -> None:
    one = subscribed()
    gift = replace(one.current, period_type=PeriodType.PROMOTIONAL, price=Price(0, "USD"))
    book = Book()
    book.take_in(replace(one, periods=(gift,)))
    assert lines(book.customer) == []


def test_who_lives_on_a_test_clock_is_in_no_figure() -> None:
    book = Book(someone(test_clock_id="clock"))
    book.take_in(subscribed())
    assert contributions(book.customer, CATALOG) == {}


def test_where_two_periods_overlap_the_later_one_counts() -> None:
    one = subscribed()
    early = actions.renew(one, CATALOG, NOON + DAY)
    # As from a store that charges early and leaves the previous period unchanged.
    early = replace(early, periods=(one.current, early.current))
    assert [(start, end) for start, end, _ in segments(early)] == [
        (NOON, NOON + DAY),
        (NOON + DAY, early.current.ends_at),
    ]
    # The renewal is refunded: what was paid before it runs on.
    refunded = actions.refund(early, NOON + 2 * DAY)
    assert isinstance(refunded, Subscription)
    assert [(start, end, period.number) for start, end, period in segments(refunded)] == [
        (NOON, NOON + DAY, 0),
        (NOON + DAY, NOON + 2 * DAY, 1),
        (NOON + 2 * DAY, MONTH_END, 0),
    ]


def test_a_weekly_price_brings_four_times_as_much() -> None:
    weekly = replace(PRO_MONTHLY, id="weekly", duration=Duration(days=7), price=Price(2_000_000, "USD"))
    catalog = replace(CATALOG, products={weekly.id: weekly})
    book = Book(catalog=catalog)
    book.take_in(subscribed(weekly))
    (mine,) = contributions(book.customer, catalog).values()
    assert total(line.tally for line in mine if line.at <= NOON).mrr == 8_000_000


def test_merged_customers_contribute_what_both_did_and_one_can_be_the_others_return() -> None:
    old, young = Book(), Book(someone("bob", NOON + 40 * DAY))
    causes.ran_out_after_renewal_was_turned_off(old)
    young.take_in(subscribed(PRO_YEARLY, MONTH_END + DAY, id="another"), MONTH_END + DAY)
    apart = until(old.customer, FOR_EVER).plus(until(young.customer, FOR_EVER))
    merged = until(merge(old.customer, young.customer, MONTH_END).before, FOR_EVER)
    assert merged == apart.plus(Tally(resubscribed=1))


@given(lives())
def test_at_every_moment_of_a_life_those_count_that_give_access(life: Life) -> None:
    for now, customer in life.book.states:
        open_now = {
            (access.source.store, access.source.id)
            for access in accesses(customer, CATALOG)
            if isinstance(access.source, Subscription) and access.purchased_at <= now and access.is_active(now)
        }
        tally = until(customer, now)
        assert tally.active + tally.trials == len(open_now)


@given(lives())
def test_of_the_trials_that_have_ended_no_more_were_kept_than_there_were(life: Life) -> None:
    for now, _ in life.book.states:
        tally = until(life.book.customer, now)
        assert 0 <= tally.trials_kept <= tally.trials_ended <= tally.trials_started


def test_who_bought_in_the_sandbox_only_is_a_newcomer_there_once_when_first_seen() -> None:
    book = Book(someone("ada", NOON - DAY))
    assert newcomers(book.customer) == []
    book.take_in(subscribed(PRO_YEARLY))
    assert newcomers(book.customer) == [(NOON - DAY, Environment.SANDBOX, 1)]
    book.take_in(subscribed(PRO_MONTHLY, id="another"))
    assert newcomers(book.customer) == [(NOON - DAY, Environment.SANDBOX, 1)]
    # A purchase in production makes a real customer of them.
    book.take_in(replace(subscribed(PRO_MONTHLY, id="real"), environment=Environment.PRODUCTION))
    assert newcomers(book.customer) == []


@given(lives())
def test_what_was_active_once_stays_so_in_hindsight(life: Life) -> None:
    if any(act.split(": ")[1].startswith("reverse") for act in life.acts):
        return  # A reversed refund fills the gap that the refund had made.
    # Of several changes in one millisecond the last one counts.
    for now, customer in dict(life.book.states).items():
        then, hindsight = until(customer, now), until(life.book.customer, now)
        assert (then.active, then.trials, then.mrr) == (hindsight.active, hindsight.trials, hindsight.mrr)
        assert (then.payments, then.paid, then.trials_started) == (
            hindsight.payments,
            hindsight.paid,
            hindsight.trials_started,
        )


@given(lives())
def test_every_beginning_has_its_end(life: Life) -> None:
    for mine in contributions(life.book.customer, CATALOG).values():
        everything = total(line.tally for line in mine)
        assert (everything.active, everything.trials, everything.mrr) == (0, 0, 0)
        assert 0 <= everything.refunds <= everything.payments
        assert 0 <= everything.trials_kept == everything.trials_converted <= everything.trials_started
        begun = sum(line.tally.active for line in mine if line.tally.active > 0)
        assert begun <= everything.expired + sum(-line.tally.active for line in mine if line.tally.active < 0)
    everything = until(life.book.customer, FOR_EVER)
    assert 0 <= everything.resubscribed <= everything.expired


@given(lives())
def test_an_end_is_in_the_lines_before_it_comes(life: Life) -> None:
    """The passing of time changes no line: an expiry needs no update."""
    customer = life.book.customer
    unaware = replace(
        customer,
        subscriptions=tuple(replace(one, expired=None) for one in customer.subscriptions),
        purchases=tuple(replace(one, expired=None) for one in customer.purchases),
    )
    assert contributions(unaware, CATALOG) == contributions(customer, CATALOG)
