"""Hand-made books of money and customers: worked examples of the definitions, with answers known beforehand."""

from itertools import permutations

import pytest
from msgspec.structs import replace

from latchkey.domain.customers.customer import Enrollment
from latchkey.domain.purchases.lifecycle import observe
from latchkey.domain.purchases.purchase import Rate, Terms, observe_purchase
from latchkey.domain.purchases.subscription import Cause, Subscription
from latchkey.subjects.charts.rules.facts import Filter, Kind
from tests.subjects.charts.books import (
    SHOP,
    TRIAL,
    at,
    bought,
    customer,
    facts,
    flow,
    level,
    money,
    period,
    subscription,
)
from tests.subjects.charts.derived import Person, facts_of_each
from tests.subjects.charts.fact import plus

# Money.


def test_a_refund_counts_on_its_own_day() -> None:
    book = facts(customer(subscription(period("01-30", "02-28", refunded="02-03"))))
    assert flow(book, Kind.PAYMENT, "01-01", "01-31").amount == 10
    assert flow(book, Kind.REFUND, "01-01", "01-31").amount == 0
    assert flow(book, Kind.REFUND, "02-01", "02-28").amount == 10
    # For the refund rate: on the day of the payment.
    assert flow(book, Kind.REFUNDED_PAYMENT, "01-30", "01-30").quantity == 1


def test_a_reversed_refund_counts_again_on_the_day_of_the_reversal() -> None:
    book = facts(customer(bought("01-10", 10, refunded="01-20")))
    back = facts(customer(subscription(period("01-10", "02-10", refunded="01-20", reversed="02-02"))))
    assert flow(book, Kind.REFUND, "01-20", "01-20").quantity == 1
    assert [flow(back, Kind.REFUND, day, day).quantity for day in ("01-20", "02-02")] == [1, -1]
    assert [flow(back, Kind.REFUND, day, day).amount for day in ("01-20", "02-02")] == [10, -10]
    assert flow(back, Kind.REFUNDED_PAYMENT, "01-01", "12-31") == []


def test_a_part_given_back_counts_when_the_store_told_it() -> None:
    book = facts(customer(subscription(period("01-10", "02-10", part=4, told="01-25"))))
    (back,) = flow(book, Kind.REFUND, "01-25", "01-25")
    assert (back.quantity, back.money.micros) == (0, 4_000_000)


def test_a_part_stays_on_its_day_when_the_rest_is_given_back_later() -> None:
    """May was closed with 6.00: the reports of June and July change nothing in it, in whichever order they come."""
    reports = [
        subscription(period("05-10", "08-10", part=4, told="05-20")),
        subscription(period("05-10", "08-10", part=4, told="06-15")),
        subscription(period("05-10", "08-10", part=7, told="06-20")),
        subscription(period("05-10", "08-10", refunded="07-02", told="07-03")),
    ]
    customers = []
    for order in permutations(reports):
        known: Subscription | None = None
        for one in order:
            known = observe(known, one)
            assert observe(known, one) == known
        assert known is not None
        customers.append(Person(customer(known), SHOP))
    for book in facts_of_each(customers):
        months = (("05-01", "05-31"), ("06-01", "06-30"), ("07-01", "07-31"))
        assert [flow(book, Kind.REFUND, *month).amount for month in months] == [4, 3, 3]
        assert [flow(book, Kind.REFUND, *month).quantity for month in months] == [0, 0, 1]
        assert sum(one.money.micros for one in book if one.kind is Kind.SEEN_REVENUE) == 0


def test_parts_of_a_one_time_purchase_have_their_days_too() -> None:
    first = replace(bought("05-10", 10), given_back=4_000_000, told_at=at("05-20"))
    whole = replace(bought("05-10", 10, refunded="07-02"), told_at=at("07-03"))
    for one, other in ((first, whole), (whole, first)):
        book = facts(customer(observe_purchase(observe_purchase(None, one), other)))
        assert [flow(book, Kind.REFUND, day, day).amount for day in ("05-20", "07-02")] == [4, 6]


def test_a_part_that_failed_to_go_back_counts_again_when_the_store_told_it() -> None:
    part = subscription(period("05-10", "08-10", part=4, told="05-20"))
    failed = subscription(period("05-10", "08-10", told="06-02"))
    book = facts(customer(observe(observe(None, part), failed)))
    assert [flow(book, Kind.REFUND, day, day).amount for day in ("05-20", "06-02")] == [4, -4]


def test_the_parts_of_a_refund_add_up_to_the_payment_in_every_amount() -> None:
    """Rounding of tax, commission and USD leaves nothing behind."""
    terms = Terms(Rate("0.0066", "2026-01-10"), 0.159664, 0.252101)
    seen = subscription(period("01-10", "02-10", money(1501, "JPY"), terms=terms, part=333, told="01-12"))
    whole = subscription(period("01-10", "02-10", money(1501, "JPY"), terms=terms, refunded="02-02", told="02-02"))
    book = facts(customer(observe(observe(None, seen), whole)))
    paid, *back = sorted((one for one in book if one.kind in (Kind.PAYMENT, Kind.REFUND)), key=lambda one: one.at)
    assert len(back) == 2
    assert plus(back[0].money, back[1].money) == paid.money


def test_the_first_payment_ever_is_new_and_all_others_are_not() -> None:
    years = [period(start, end, 120, product="yearly") for start, end in (("2025-02-03", "02-03"), ("02-03", "12-31"))]
    book = facts(
        customer(subscription(period("02-03", "03-03", 8))),
        customer(subscription(*years)),
        customer(bought("01-05", 3, id="a"), bought("02-03", 3, id="b")),
        customer(subscription(period("02-03", "03-03", 8, refunded="02-20"))),
    )
    paid = flow(book, Kind.PAYMENT, "02-03", "02-03")
    assert (paid.quantity, paid.amount, paid.of(0).amount, paid.of(1).amount) == (4, 139, 16, 123)
    assert flow(book, Kind.REFUND, "02-20", "02-20").of(0).amount == 8


def test_yen_at_the_rate_of_the_day() -> None:
    book = facts(customer(bought("01-10", money(1500, "JPY")), subscription(
        period("01-10", "02-10", money(1500, "JPY"), terms=Terms(Rate("0.0066", "2026-01-10")))
    )))  # fmt: skip
    paid = flow(book, Kind.PAYMENT, "01-10", "01-10")
    assert (paid.amount, paid.usd) == (3000, 9.90)
    assert sum(one.money.unconverted for one in paid) == 1


def test_tax_and_commission_are_parts_of_the_price() -> None:
    """11.90 with 19 % of tax and 30 % of what is left: 1.90, 3.00 and 7.00."""
    book = facts(customer(subscription(period("01-10", "02-10", 11.90, terms=Terms(None, 0.159664, 0.252101)))))
    for (one,) in (flow(book, Kind.PAYMENT, "01-10", "01-10"), level(book, Kind.ACTIVE, "01-10")):
        proceeds = one.money.micros - one.money.tax - one.money.commission
        assert [round(part, -4) for part in (one.money.tax, one.money.commission, proceeds)] == [
            1_900_000,
            3_000_000,
            7_000_000,
        ]


# Customers, by the day they were first seen.


@pytest.mark.parametrize(("seen", "paid", "cohort"), [("04-15", "05-21", "04-15"), ("04-15", "04-10", "04-10")])
def test_first_seen_is_the_earlier_of_contact_and_purchase(seen: str, paid: str, cohort: str) -> None:
    book = facts(customer(bought(paid, 10), seen=seen))
    assert (
        flow(book, Kind.CUSTOMER, cohort, cohort).quantity == flow(book, Kind.CUSTOMER, "01-01", "12-31").quantity == 1
    )
    assert flow(book, Kind.PAYING_CUSTOMER, paid, paid).quantity == 1


def test_a_new_paying_customer_is_of_the_country_of_the_first_payment() -> None:
    """A trial in Germany that nobody paid for, and months later a first payment in Japan."""
    trial = subscription(period("01-10", "01-17", type=TRIAL, country="DE"))
    later = subscription(period("05-10", "06-10", 10, country="JP"), id="sub_2")
    book = facts(customer(trial, later, seen="01-10"))
    german, japanese = Filter("country", ("DE",)), Filter("country", ("JP",))
    assert flow(book, Kind.CUSTOMER, "01-10", "01-10", german).quantity == 1
    assert flow(book, Kind.PAYING_CUSTOMER, "05-10", "05-10", japanese).quantity == 1
    assert flow(book, Kind.PAYING_CUSTOMER, "05-10", "05-10", german).quantity == 0


@pytest.mark.parametrize(("paid", "window"), [("03-03", 0), ("03-10", 1), ("03-11", 2), ("04-02", 3), ("04-03", 4)])
def test_seven_days_are_eight_calendar_days(paid: str, window: int) -> None:
    book = facts(customer(bought(f"{paid}T23:00", 10), seen="03-03T20:00"))
    for kind in (Kind.SEEN_PAYER, Kind.SEEN_CONVERTED, Kind.SEEN_REVENUE):
        assert flow(book, kind, "03-03", "03-03").by_n() == {window: 1}


def test_a_refund_takes_away_from_the_windows_that_are_open() -> None:
    """Paid on day 5, refunded on day 10: converted in 7 days, but not in 14 and 30."""
    book = facts(customer(bought("01-06", 10, refunded="01-11"), seen="01-01"))

    def within(kind: Kind, n: int) -> tuple[int, int]:
        rows = [one for one in flow(book, kind, "01-01", "01-01") if one.n <= n]
        return sum(one.quantity for one in rows), sum(one.money.micros for one in rows)

    assert [within(Kind.SEEN_PAYER, n)[0] for n in (0, 1, 2, 3)] == [0, 1, 0, 0]
    assert [within(Kind.SEEN_CONVERTED, n)[0] for n in (0, 1, 2, 3)] == [0, 1, 0, 0]
    assert [within(Kind.SEEN_REVENUE, n)[1] for n in (0, 1, 2, 3)] == [0, 10_000_000, 0, 0]


def test_conversion_within_seven_days_and_without_limit() -> None:
    """400 new; 60 start a trial, 10 buy directly; 22 trials are paid by day 7, 11 later."""

    def trial(paid: str | None) -> tuple[object, ...]:
        first = period("01-02", paid or "01-30", type=TRIAL)
        return (first,) if paid is None else (first, period(paid, "12-31", cause=Cause.CONVERSION))

    people = [customer(seen="01-01") for _ in range(330)]
    people += [customer(bought("01-03", 5), seen="01-01") for _ in range(10)]
    for paid, count in (("01-08", 22), ("01-20", 11), (None, 27)):
        people += [customer(subscription(*trial(paid)), seen="01-01") for _ in range(count)]  # type: ignore[arg-type]  # periods
    book = facts(*people)
    assert flow(book, Kind.CUSTOMER, "01-01", "01-01").quantity == 400
    assert flow(book, Kind.SEEN_CONVERTED, "01-01", "01-01").by_n() == {1: 70}
    assert flow(book, Kind.SEEN_PAYER, "01-01", "01-01").by_n() == {1: 32, 3: 11}


# What facts can be broken down by.


def test_a_purchase_belongs_to_the_variants_that_came_before_it() -> None:
    enrolled = (Enrollment("exp", "Paywall", "b", at("01-15")),)
    someone = replace(customer(bought("01-10", 10, id="before"), bought("01-20", 4, id="after")), enrollments=enrolled)
    book = facts(someone)
    assert flow(book, Kind.PAYMENT, "01-01", "01-31", Filter("experiment:exp", ("b",))).amount == 4
    assert flow(book, Kind.ENROLLED, "01-15", "01-15", Filter("experiment:exp", ("b",))).quantity == 1
    assert flow(book, Kind.ENROLLED_PAYER, "01-15", "01-15").by_n() == {1: 1}
    assert flow(book, Kind.ENROLLED_REVENUE, "01-15", "01-15").amount == 4
    assert flow(book, Kind.ENROLLED_SQUARE, "01-15", "01-15").quantity == 400**2


def test_of_the_customers_of_a_variant_no_more_convert_than_there_are() -> None:
    """Customers first seen and those of them who bought are broken down by the same: what the customer is in now."""
    enrolled = (Enrollment("exp", "Paywall", "b", at("01-15")),)
    book = facts(replace(customer(bought("01-10", 10), seen="01-01"), enrollments=enrolled))
    for variant, customers in (("b", 1), ("", 0)):
        of = Filter("experiment:exp", (variant,))
        assert flow(book, Kind.CUSTOMER, "01-01", "01-01", of).quantity == customers
        assert flow(book, Kind.SEEN_CONVERTED, "01-01", "01-01", of).quantity == customers
        assert flow(book, Kind.SEEN_PAYER, "01-01", "01-01", of).quantity == customers
        assert flow(book, Kind.SEEN_REVENUE, "01-01", "01-01", of).amount == 10 * customers


def test_the_square_of_what_was_paid_within_each_window() -> None:
    enrolled = (Enrollment("exp", "Paywall", "b", at("01-01")),)
    someone = replace(customer(bought("01-01", 3, id="a"), bought("01-05", 4, id="b")), enrollments=enrolled)
    assert flow(facts(someone), Kind.ENROLLED_SQUARE, "01-01", "01-01").by_n() == {0: 300**2, 1: 700**2 - 300**2}
