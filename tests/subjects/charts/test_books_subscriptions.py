"""Hand-made books of subscriptions: worked examples of the definitions, with answers known beforehand."""

import pytest
from msgspec.structs import replace

from latchkey.domain.charts.period_amounts import own_length
from latchkey.domain.instants import DAY, Duration
from latchkey.domain.purchases.purchase import Expired, MoneyBack, Ownership, Rate, Reason, Terms
from latchkey.domain.purchases.subscription import Cause
from latchkey.subjects.charts.rules.facts import MOVED, Filter, Kind
from tests.subjects.charts.books import (
    INTRO,
    TRIAL,
    at,
    customer,
    facts,
    flow,
    level,
    money,
    period,
    subscription,
)
from tests.subjects.charts.derived import Issue

EXPIRED = Expired("", at("02-16"), Reason.UNKNOWN)
REFUNDED = (MoneyBack(at("02-20")),)

# Active subscriptions and their revenue.


def test_active_at_the_end_of_a_day() -> None:
    book = facts(
        customer(subscription(period("01-10", "02-10"), period("02-10", "03-10"))),
        customer(subscription(period("01-20", "02-20"), auto_renew=False, renewal_off_at=at("01-25"))),
        customer(subscription(period("01-28", "02-04", type=TRIAL), period("02-04", "03-04", cause=Cause.CONVERSION))),
    )
    active = {day: level(book, Kind.ACTIVE, day).quantity for day in ("01-31", "02-10", "02-19", "02-20", "02-28")}
    assert active == {"01-31": 2, "02-10": 3, "02-19": 3, "02-20": 2, "02-28": 2}
    assert [level(book, Kind.TRIAL, day).quantity for day in ("01-27", "01-28", "02-03", "02-04")] == [0, 1, 1, 0]


def test_a_grace_period_is_active_until_its_end() -> None:
    book = facts(
        customer(subscription(period("01-10", "02-10"), billing_issue_at=at("02-10"), grace_ends_at=at("02-26T12:00")))
    )
    assert [level(book, Kind.ACTIVE, day).quantity for day in ("02-25", "02-26")] == [1, 0]
    assert flow(book, Kind.CHURN, "02-26", "02-26").quantity == 1


def test_mrr_of_several_lengths() -> None:
    sold = [("monthly", 8), ("yearly", 120), ("weekly", 3.50), ("quarterly", 30)]
    book = facts(*(customer(subscription(period("01-01", "01-08", price, product=product))) for product, price in sold))
    assert level(book, Kind.ACTIVE, "01-01").amount == 42
    assert [level(book, Kind.ACTIVE, "01-01", Filter("product", (id,))).amount for id, _ in sold] == [8, 10, 14, 10]


@pytest.mark.parametrize(
    ("product", "price", "end", "intro", "monthly"),
    [
        # The price is for the product's length, whatever became of the period.
        ("monthly", 10, "01-15", False, 10),
        ("monthly", 10, "03-15", False, 10),
        ("odd", 9, "02-15", False, 6),
        # An introductory price is for the period itself: 91 days are three months.
        ("monthly", 9.99, "04-02", True, 3.33),
        ("yearly", 1, "01-08", True, 4),
        ("yearly", 12, "02-01", True, 12),
        # Not in the catalog: the length that stores sell and that is closest.
        ("unheard-of", 120, "12-31", False, 10),
        ("unheard-of", 9, "03-31", True, 3),
    ],
)
def test_mrr_of_one_period(product: str, price: float, end: str, intro: bool, monthly: float) -> None:
    type = INTRO if intro else period("01-01", end).period_type
    book = facts(customer(subscription(period("01-01", end, price, product=product, type=type))))
    assert level(book, Kind.ACTIVE, "01-01").amount == monthly


@pytest.mark.parametrize(
    ("days", "length"),
    [
        (3, Duration(days=3)),
        (7, Duration(days=7)),
        (28, Duration(months=1)),
        (31, Duration(months=1)),
        (45, Duration(days=45)),
        (59, Duration(months=2)),
        (91, Duration(months=3)),
        (184, Duration(months=6)),
        (366, Duration(months=12)),
    ],
)
def test_the_own_length_of_an_introductory_period(days: int, length: Duration) -> None:
    assert own_length(days * DAY) == length


def test_an_introductory_period_that_was_cut_short_counts_by_the_product() -> None:
    change = period("01-03", "02-03", 20, product="dearer", cause=Cause.CHANGE)
    book = facts(customer(subscription(period("01-01", "01-03", 9, type=INTRO), change)))
    assert level(book, Kind.ACTIVE, "01-02").amount == 9


def test_the_movement_of_mrr() -> None:
    """42.00 at the start; a new 8.00, a weekly 14.00 expires, a lapsed 5.00 is back: 41.00."""
    book = facts(
        *(customer(subscription(period("01-01", "12-31", price))) for price in (8, 10, 10)),
        customer(subscription(period("01-28", "02-04", 3.50, product="weekly"))),
        customer(subscription(period("02-10", "03-10", 8))),
        customer(subscription(period("2025-11-01", "2025-12-01", 5), period("02-15", "03-15", 5))),
    )
    assert level(book, Kind.ACTIVE, "01-31").amount == 42
    movement = {kind: flow(book, kind, "02-01", "02-28").amount for kind in (Kind.NEW, Kind.RETURN, Kind.CHURN)}
    assert movement == {Kind.NEW: 8, Kind.RETURN: 5, Kind.CHURN: 14}
    assert level(book, Kind.ACTIVE, "02-28").amount == 41


@pytest.mark.parametrize(("old", "new", "kind"), [(5, 8, Kind.EXPANSION), (8, 5, Kind.CONTRACTION)])
def test_a_product_change_moves_the_difference(old: float, new: float, kind: Kind) -> None:
    change = period("01-20", "02-20", new, product="dearer", cause=Cause.CHANGE)
    book = facts(customer(subscription(period("01-10", "01-20", old), change)))
    moved = flow(book, kind, "01-20", "01-20")
    assert (moved.amount, moved.quantity) == (3, 0)
    assert flow(book, Kind.CHURN, "01-01", "02-19") == flow(book, Kind.NEW, "01-11", "12-31") == []
    # The smaller amount moves from one product to the other. The rest is of the product that it came to, or left.
    of_old, of_new = Filter("product", ("monthly",)), Filter("product", ("dearer",))
    assert flow(book, kind, "01-20", "01-20", of_new if kind is Kind.EXPANSION else of_old)[0].money.micros == 3_000_000
    for of, sign in ((of_old, -1), (of_new, 1)):
        (between,) = [one for one in flow(book, Kind.EXPANSION, "01-20", "01-20", of) if one.n == MOVED]
        assert (between.quantity, between.money.micros) == (sign, sign * 5_000_000)


def test_a_price_that_fell_while_the_rate_rose_is_contraction_in_its_currency_and_expansion_in_usd() -> None:
    low, high = (Terms(Rate(usd, "2026-01-01"), None, 0.1) for usd in ("1.00", "1.20"))
    before = period("01-10", "02-10", money(10, "EUR"), terms=low)
    after = period("02-10", "03-10", money(9, "EUR"), terms=high)
    book = facts(customer(subscription(before, after)))
    (less,), (more,) = (flow(book, kind, "02-10", "02-10") for kind in (Kind.CONTRACTION, Kind.EXPANSION))
    assert (less.money.micros, less.money.commission, less.money.usd) == (1_000_000, 100_000, 0)
    assert (more.money.micros, more.money.usd, more.money.commission_usd) == (0, 800_000, 80_000)


def test_a_price_that_fell_while_the_commission_fell_more_is_expansion_of_proceeds() -> None:
    before = period("01-10", "02-10", 10, terms=Terms(None, None, 0.3))
    after = period("02-10", "03-10", 9, terms=Terms(None, None, 0.15))
    book = facts(customer(subscription(before, after)))
    (less,), (more,) = (flow(book, kind, "02-10", "02-10") for kind in (Kind.CONTRACTION, Kind.EXPANSION))
    assert (less.money.micros, less.money.micros - less.money.commission) == (1_000_000, 0)
    assert (more.money.micros, more.money.micros - more.money.commission) == (0, 650_000)


def test_a_change_of_currency_is_a_contraction_in_one_and_an_expansion_in_the_other() -> None:
    change = period("01-20", "02-20", money(7, "EUR"), product="dearer", cause=Cause.CHANGE)
    book = facts(customer(subscription(period("01-10", "01-20", 5), change)))
    assert [(one.currency, one.quantity, one.money.micros) for one in flow(book, Kind.CONTRACTION, "01-20", "01-20")]
    assert flow(book, Kind.CONTRACTION, "01-20", "01-20").amount == 5
    (expansion,) = flow(book, Kind.EXPANSION, "01-20", "01-20")
    assert (expansion.currency, expansion.quantity, expansion.money.micros) == ("EUR", 1, 7_000_000)


def test_another_exchange_rate_moves_mrr_in_usd_only() -> None:
    first, second = (Terms(Rate(usd, "2026-01-01")) for usd in ("1.10", "1.05"))
    euros = money(10, "EUR")
    months = period("01-10", "02-10", euros, terms=first), period("02-10", "03-10", euros, terms=second)
    book = facts(customer(subscription(*months)))
    (moved,) = flow(book, Kind.CONTRACTION, "02-10", "02-10")
    assert (moved.quantity, moved.money.micros, moved.money.usd) == (0, 0, 500_000)
    assert level(book, Kind.ACTIVE, "02-10").usd == 10.50


def test_new_subscriptions_by_how_they_began() -> None:
    converted = subscription(period("01-01", "01-08", type=TRIAL), period("01-08", "02-08", cause=Cause.CONVERSION))
    book = facts(
        *(customer(converted) for _ in range(20)),
        *(customer(subscription(period("01-05", "02-05", 1, type=INTRO))) for _ in range(5)),
        *(customer(subscription(period("01-05", "02-05"))) for _ in range(25)),
    )
    assert flow(book, Kind.NEW, "01-01", "01-31").by_n() == {0: 25, 1: 5, 2: 20}


def test_what_becomes_of_running_subscriptions() -> None:
    renewing = subscription(period("01-10", "02-10"))
    cancelled = subscription(period("01-10", "02-10"), auto_renew=False)
    in_grace = subscription(period("01-01", "01-20"), billing_issue_at=at("01-20"), grace_ends_at=at("02-05"))
    trial = subscription(period("01-25", "02-10", type=TRIAL), auto_renew=False)
    book = facts(
        *(customer(renewing) for _ in range(33)), *(customer(cancelled) for _ in range(8)), customer(in_grace),
        customer(trial),
    )  # fmt: skip
    assert level(book, Kind.STATUS, "01-31").by_n() == {0: 33, 1: 8, 2: 1, 4: 1}
    assert level(book, Kind.STATUS, "01-31").amount == level(book, Kind.ACTIVE, "01-31").amount == 420


def test_a_refund_ends_a_subscription_on_its_day() -> None:
    book = facts(customer(subscription(period("01-10", "02-10", refunded="01-20T08:00"))))
    assert [level(book, Kind.ACTIVE, day).quantity for day in ("01-19", "01-20")] == [1, 0]
    assert flow(book, Kind.CHURN, "01-20", "01-20").amount == 10


def test_family_shares_are_not_counted() -> None:
    shared = replace(subscription(period("01-10", "02-10")), ownership=Ownership.FAMILY_SHARED)
    assert {one.kind for one in facts(customer(shared))} == {Kind.CUSTOMER}


# Trials.


def test_the_trials_of_a_week_and_how_many_converted() -> None:
    """40 trials, 18 converted so far, one of these was refunded: 17 of 40."""
    running = subscription(period("02-09", "02-16", type=TRIAL))
    lost = replace(subscription(period("02-09", "02-16", type=TRIAL), auto_renew=False), expired=EXPIRED)
    paid = period("02-16", "03-16", cause=Cause.CONVERSION)
    kept = subscription(period("02-09", "02-16", type=TRIAL), paid)
    back = subscription(period("02-09", "02-16", type=TRIAL), replace(paid, money_back=REFUNDED))
    book = facts(
        *(customer(running) for _ in range(10)), *(customer(lost) for _ in range(12)),
        *(customer(kept) for _ in range(17)), customer(back),
    )  # fmt: skip
    assert flow(book, Kind.TRIAL_STARTED, "02-08", "02-14").by_n() == {0: 10, 1: 17, 2: 12, 3: 1}
    ended = flow(book, Kind.TRIAL_ENDED, "02-16", "02-16")
    assert ended.by_n() == {1: 18, 2: 22}
    assert level(book, Kind.TRIAL, "02-15").quantity == 40
    assert level(book, Kind.TRIAL, "02-16").quantity == 0


def test_only_the_payment_that_follows_a_trial_converts_it() -> None:
    lost = replace(subscription(period("01-01", "01-08", type=TRIAL), id="a"), expired=EXPIRED)
    later = subscription(period("02-01", "03-01"), id="b")
    book = facts(customer(lost, later))
    assert flow(book, Kind.TRIAL_STARTED, "01-01", "01-01").by_n() == {2: 1}
    assert flow(book, Kind.NEW, "02-01", "02-01").by_n() == {0: 1}


# Renewals and retention.


def test_retention_is_of_the_whole_cohort() -> None:
    """100 begin in January, 70 pay the second month, 52 the third."""
    months = [("01-10", "02-10"), ("02-10", "03-10"), ("03-10", "04-10")]

    def kept(count: int) -> list[object]:
        return [period(*month) for month in months[:count]]

    people = [
        customer(subscription(*kept(count), auto_renew=False))  # type: ignore[arg-type]  # periods
        for count, how_many in ((1, 30), (2, 18), (3, 52))
        for _ in range(how_many)
    ]
    assert flow(facts(*people), Kind.RETAINED, "01-01", "01-31").by_n() == {0: 100, 1: 70, 2: 52}


def test_the_running_period_counts_those_set_to_renew() -> None:
    """20 of 30 have renewed, 6 more are set to renew."""
    ran = [period("01-10", "02-10")]
    people = [customer(subscription(*ran, period("02-10", "03-10"), auto_renew=False)) for _ in range(20)]
    people += [customer(subscription(*ran)) for _ in range(6)]
    people += [customer(subscription(*ran, auto_renew=False)) for _ in range(4)]
    book = facts(*people)
    assert flow(book, Kind.RETAINED, "01-10", "01-10").by_n() == {0: 30, 1: 20}
    assert flow(book, Kind.RETAINED_SOON, "01-10", "01-10").by_n() == {1: 6}


def test_a_cohort_begins_with_the_first_standard_period_and_anew_with_another_product_or_after_a_gap() -> None:
    begun = [period("01-01", "01-08", type=TRIAL), period("01-08", "02-08", 1, type=INTRO), period("02-08", "03-08")]
    changed = period("03-01", "04-01", product="dearer", cause=Cause.CHANGE)
    back = period("05-01", "06-01", product="dearer")
    book = facts(customer(subscription(*begun, changed, back)))
    assert [flow(book, Kind.RETAINED, day, day).by_n() for day in ("01-08", "02-08", "03-01", "05-01")] == [
        {},
        {0: 1},
        {0: 1},
        {0: 1},
    ]


def test_a_refunded_period_is_not_retained_but_the_cohort_keeps_its_size() -> None:
    whole = [period("01-10", "02-10", refunded="03-15"), period("02-10", "03-10", refunded="03-15")]
    book = facts(customer(subscription(*whole, period("03-10", "04-10"))))
    assert flow(book, Kind.RETAINED, "01-10", "01-10").by_n() == {0: 1, 2: 1}


def test_renewals_that_were_due() -> None:
    renewed = [period("01-10", "02-10"), period("02-10", "03-10"), period("03-10", "04-10")]
    late = period("02-14", "03-10", paid_from="02-10")
    changed = period("01-25", "12-25", product="dearer", cause=Cause.CHANGE)
    book = facts(
        customer(subscription(*renewed, auto_renew=False)),
        # Recovered within the grace period: renewed on the day it was due.
        customer(subscription(renewed[0], late, id="b")),
        # Recovered too late: not renewed, and back.
        customer(subscription(renewed[0], period("02-20", "03-20"), id="c")),
        # Neither was due: another product took its place, and the money was given back.
        customer(subscription(period("01-10", "01-25"), changed, id="d")),
        customer(subscription(period("01-10", "02-10", refunded="01-20"), id="e")),
    )
    assert flow(book, Kind.RENEWAL_DUE, "02-10", "02-10").by_n() == {1: 3}
    assert flow(book, Kind.RENEWED, "02-10", "02-10").by_n() == {1: 2}
    assert flow(book, Kind.RENEWAL_DUE, "03-10", "04-10").by_n() == {1: 1, 2: 2, 3: 1}
    assert flow(book, Kind.RENEWED, "03-10", "04-10").by_n() == {2: 1}


def test_a_payment_made_good_in_the_grace_period_counts_from_its_own_day() -> None:
    """At the old price until then, so that days that are over do not change."""
    late = period("02-14", "03-10", 20, product="dearer", paid_from="02-10")
    book = facts(customer(subscription(period("01-10", "02-10", 10), late)))
    assert [level(book, Kind.ACTIVE, day).amount for day in ("02-09", "02-13", "02-14")] == [10, 10, 20]
    assert flow(book, Kind.EXPANSION, "02-14", "02-14").amount == 10
    assert flow(book, Kind.PAYMENT, "02-14", "02-14").amount == 20
    assert flow(book, Kind.CHURN, "01-01", "03-09") == []


def test_what_became_of_failed_payments() -> None:
    first = period("01-10", "02-10")
    in_time = subscription(first, period("02-14", "03-10", paid_from="02-10"), id="in time")
    late = subscription(first, period("02-20", "03-20"), id="late")
    still = subscription(first, id="open", billing_issue_at=at("02-10"), grace_ends_at=at("02-26"))
    lost = replace(subscription(first, id="lost", billing_issue_at=at("02-10")), expired=EXPIRED)
    everyone = (in_time, late, still, lost)
    issues = {
        (one.store, one.id): [Issue(at("02-10"), one.periods[0].id, at("02-15")), Issue(at("02-11"), one.periods[0].id)]
        for one in everyone
    }
    book = facts(*map(customer, everyone), issues=issues)
    assert flow(book, Kind.BILLING_ISSUE, "02-10", "02-10").by_n() == {0: 1, 1: 1, 2: 1, 3: 1}
    assert flow(book, Kind.BILLING_ISSUE, "01-01", "12-31").amount == 40
    # The one who came back too late was active until the grace period ended.
    alone = facts(customer(late), issues=issues)
    assert [level(alone, Kind.ACTIVE, day).quantity for day in ("02-14", "02-15", "02-19", "02-20")] == [1, 0, 0, 1]
    assert [flow(alone, kind, "02-01", "02-28").quantity for kind in (Kind.CHURN, Kind.RETURN)] == [1, 1]
