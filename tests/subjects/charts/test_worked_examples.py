"""Each chart on a few facts, with answers worked out by hand."""

import pytest
from msgspec.structs import replace

from latchkey.subjects.charts.rules.definition import Drawing
from latchkey.subjects.charts.rules.facts import Filter, Kind, Resolution
from tests.subjects.charts.answers import (
    ask,
    chart,
    fact,
    negative,
    total,
    units,
    usd,
    values,
)
from tests.subjects.charts.fact import Dimensions, Fact

DE, US = Dimensions(country="DE", product="a"), Dimensions(country="US", product="b")


def running(start: str, end: str, money: float, of: Dimensions = DE, n: int = 0) -> list[Fact]:
    """A paid subscription from start to end."""
    level = fact(Kind.ACTIVE, start, 1, usd(money), of=of)
    return [
        level,
        negative(level, end),
        fact(Kind.NEW, start, 1, usd(money), of=of, n=n),
        fact(Kind.CHURN, end, 1, usd(money), of=of),
    ]


# S1 to 10 March, S2 cancelled but running to 20 February, S3 converts from a trial on 4 February.
THREE = [
    *running("2026-01-10", "2026-03-10", 8),
    *running("2026-01-20", "2026-02-20", 10, US),
    *running("2026-02-04", "2026-03-04", 14, n=2),
    fact(Kind.TRIAL, "2026-01-28"),
    fact(Kind.TRIAL, "2026-02-04", -1),
    fact(Kind.TRIAL_STARTED, "2026-01-28", n=1),
    fact(Kind.TRIAL_ENDED, "2026-02-04", n=1),
]


def test_active_subscriptions_are_those_at_the_end_of_each_period() -> None:
    by_month = chart(ask("actives", "2026-01-01", "2026-02-28"), THREE)
    assert values(by_month, "actives") == (2, 2)
    by_day = chart(ask("actives", "2026-02-10", "2026-02-20", Resolution.DAY), THREE)
    assert values(by_day, "actives") == (*[3] * 10, 2)
    assert total(by_day, "actives") == 2


def test_the_movement_of_mrr_has_five_parts() -> None:
    """From 42.00: 8.00 new, 14.00 expires, 5.00 comes back, one goes from 5.00 to 8.00, one from 8.00 to 6.00."""
    facts = [
        fact(Kind.ACTIVE, "2026-01-01", 5, usd(42)),
        fact(Kind.ACTIVE, "2026-02-02", 1, usd(8)),
        fact(Kind.NEW, "2026-02-02", 1, usd(8)),
        fact(Kind.ACTIVE, "2026-02-03", -1, usd(-14)),
        fact(Kind.CHURN, "2026-02-03", 1, usd(14)),
        fact(Kind.ACTIVE, "2026-02-04", 1, usd(5)),
        fact(Kind.RETURN, "2026-02-04", 1, usd(5)),
        fact(Kind.ACTIVE, "2026-02-05", 0, usd(3)),
        fact(Kind.EXPANSION, "2026-02-05", 1, usd(3)),
        fact(Kind.ACTIVE, "2026-02-06", 0, usd(-2)),
        fact(Kind.CONTRACTION, "2026-02-06", 1, usd(2)),
    ]
    data = chart(ask("mrr_movement", "2026-02-01", "2026-02-28"), facts)
    parts = {one.id: one.values[0] for one in data.series}
    assert parts == {
        "new": 8_000_000,
        "reactivation": 5_000_000,
        "expansion": 3_000_000,
        "contraction": -2_000_000,
        "churn": -14_000_000,
        "movement": 0,
    }
    assert [one.id for one in data.series if one.is_net] == ["movement"]


def test_new_paid_subscriptions_by_how_they_began() -> None:
    facts = [
        fact(Kind.NEW, "2026-02-01", 25, usd(1)),
        fact(Kind.NEW, "2026-02-02", 5, usd(1), n=1),
        fact(Kind.NEW, "2026-02-03", 20, usd(1), n=2),
    ]
    data = chart(ask("actives_new", "2026-02-01", "2026-02-28"), facts)
    assert {one.id: one.total for one in data.series} == {
        "new": 50,
        "direct": 25,
        "intro": 5,
        "trial_conversions": 20,
    }
    assert [one.id for one in data.drawn] == ["direct", "intro", "trial_conversions"]


def test_trial_conversion_is_by_the_day_the_trial_began() -> None:
    """40 trials of a week, 18 converted, 1 of these refunded: 17 of 40."""
    facts = [
        fact(Kind.TRIAL_STARTED, "2026-02-09", 17, n=1),
        fact(Kind.TRIAL_STARTED, "2026-02-10", 1, n=3),
        fact(Kind.TRIAL_STARTED, "2026-02-11", 22, n=2),
        fact(Kind.TRIAL_STARTED, "2026-02-17", 3, n=0),
    ]
    data = chart(ask("trial_conversion_rate", "2026-02-08", "2026-02-28", Resolution.WEEK), facts)
    assert values(data, "conversion_rate") == (0.425, 0, None)
    # In the second week trials still run.
    assert [one.complete for one in data.periods] == [True, False, True]


@pytest.mark.parametrize(
    ("active", "expired", "returned", "churn"),
    [(400, 30, 6, 0.06), (200, 10, 14, -0.02), (0, 1, 0, None)],
)
def test_churn_is_of_those_active_at_the_start(active: int, expired: int, returned: int, churn: float | None) -> None:
    facts = [
        fact(Kind.ACTIVE, "2026-01-31", active, usd(active)),
        fact(Kind.CHURN, "2026-02-10", expired, usd(1)),
        fact(Kind.RETURN, "2026-02-11", returned, usd(1)),
        # Not at the start.
        fact(Kind.ACTIVE, "2026-02-01", 1000, usd(1)),
    ]
    data = chart(ask("churn", "2026-02-01", "2026-02-28"), facts)
    assert values(data, "churn") == (churn if churn is None else pytest.approx(churn),)


@pytest.mark.parametrize("resolution", Resolution)
def test_the_total_of_churn_is_that_of_the_whole_range(resolution: Resolution) -> None:
    """98 at the start of the first day; 25 expire and 8 return until the last one."""
    facts = [
        fact(Kind.ACTIVE, "2026-01-09", 98, usd(98)),
        *(fact(Kind.CHURN, when, count, usd(1)) for when, count in (("2026-01-20", 5), ("2026-03-02", 20))),
        *(fact(Kind.ACTIVE, when, -count, usd(1)) for when, count in (("2026-01-20", 5), ("2026-03-02", 20))),
        fact(Kind.RETURN, "2026-02-10", 8, usd(1)),
        fact(Kind.ACTIVE, "2026-02-10", 8, usd(1)),
    ]
    data = chart(ask("churn", "2026-01-10", "2026-03-10", resolution), facts)
    totals = {one.measure: one.total for one in data.series}
    assert totals == {"churn": pytest.approx(17 / 98), "expired": 25, "returned": 8, "actives": 98}
    none = chart(ask("churn", "2026-01-01", "2026-03-10", resolution), facts)
    assert none.series[0].total is None


def test_revenue_books_a_refund_on_its_own_day() -> None:
    """10.00 paid on 30 January and refunded on 3 February: January keeps its 10.00."""
    facts = [
        fact(Kind.PAYMENT, "2026-01-30", 1, usd(10)),
        fact(Kind.REFUND, "2026-02-03", 1, usd(10)),
        fact(Kind.REFUNDED_PAYMENT, "2026-01-30", 1),
    ]
    data = chart(ask("revenue", "2026-01-01", "2026-02-28"), facts)
    assert units(data, "revenue") == [10, -10]
    assert units(data, "gross") == [10, 0]
    assert units(data, "refunds") == [0, -10]
    assert values(data, "transactions") == (1, -1)
    # The rate is of the payments of each period.
    rate = chart(ask("refund_rate", "2026-01-01", "2026-02-28"), facts)
    assert values(rate, "refund_rate") == (1, None)


def test_revenue_after_tax_and_commission() -> None:
    """11.90 with 19 % VAT: 1.90 tax, 3.00 commission, 7.00 proceeds."""
    facts = [fact(Kind.PAYMENT, "2026-02-01", 1, usd(11.9, tax=1.9, commission=3))]
    data = chart(ask("revenue", "2026-02-01", "2026-02-28"), facts)
    assert (units(data, "revenue"), units(data, "revenue_net_of_taxes")) == ([11.9], [10])
    proceeds = ask("revenue", "2026-02-01", "2026-02-28", selectors={"revenue_type": "proceeds"})
    assert units(chart(proceeds, facts), "revenue") == [7]
    assert units(chart(replace(proceeds, name="mrr"), [facts[0]._replace(kind=Kind.ACTIVE)]), "mrr") == [7]


def test_revenue_of_first_and_later_payments() -> None:
    facts = [fact(Kind.PAYMENT, "2026-02-03", 1, usd(8)), fact(Kind.PAYMENT, "2026-02-03", 2, usd(123), n=1)]
    data = chart(ask("revenue", "2026-02-01", "2026-02-28", segment="transaction_type"), facts)
    assert units(data, "revenue:first") == [8]
    assert units(data, "revenue:later") == [123]
    assert [one.title for one in data.drawn] == ["Later payments", "First payment"]


# 400 customers; 10 buy at once, 60 start a trial, 22 of them convert by day 7 and 11 later.
SEEN = [
    fact(Kind.CUSTOMER, "2026-01-10", 400),
    fact(Kind.SEEN_CONVERTED, "2026-01-10", 70, n=0, of=DE),
    fact(Kind.SEEN_PAYER, "2026-01-10", 10, n=0, of=DE),
    fact(Kind.SEEN_PAYER, "2026-01-10", 22, n=1, of=US),
    fact(Kind.SEEN_PAYER, "2026-01-10", 11, n=4, of=US),
    fact(Kind.SEEN_REVENUE, "2026-01-10", 32, usd(600), n=1, of=DE),
    fact(Kind.SEEN_REVENUE, "2026-01-10", -2, usd(-40), n=3, of=DE),
]


@pytest.mark.parametrize(
    ("name", "timeframe", "rate"),
    [
        ("initial_conversion", "7_days", 0.175),
        ("conversion_to_paying", "0_days", 0.025),
        ("conversion_to_paying", "7_days", 0.08),
        ("conversion_to_paying", "unbounded", 0.1075),
    ],
)
def test_conversion_of_customers_first_seen(name: str, timeframe: str, rate: float) -> None:
    request = ask(name, "2026-01-01", "2026-01-31", selectors={"conversion_timeframe": timeframe})
    assert values(chart(request, SEEN), "conversion_rate") == (rate,)


def test_a_filter_by_product_reduces_the_buyers_and_never_the_customers() -> None:
    request = ask("conversion_to_paying", "2026-01-01", "2026-01-31", filters=(Filter("product", ("a",)),))
    data = chart(request, SEEN)
    assert (values(data, "converted"), values(data, "customers")) == ((10,), (400,))
    by_product = chart(replace(request, filters=(), segment="product"), SEEN)
    assert values(by_product, "conversion_rate:b") == (0.055,)
    assert values(by_product, "conversion_rate") == (0.08,)
    assert [one.segment for one in by_product.drawn] == ["b", "a", None]


def test_lifetime_value_per_customer_and_per_payer() -> None:
    """600.00 paid within 30 days, 40.00 of it refunded: 560.00 of 400 customers, 32 of them payers."""
    customers = chart(ask("ltv_per_customer", "2026-01-01", "2026-01-31"), SEEN)
    assert units(customers, "ltv") == [1.4]
    payers = chart(ask("ltv_per_paying_customer", "2026-01-01", "2026-01-31"), SEEN)
    assert units(payers, "ltv") == [17.5]
    short = ask("ltv_per_paying_customer", "2026-01-01", "2026-01-31", selectors={"customer_lifetime": "7_days"})
    assert units(chart(short, SEEN), "ltv") == [18.75]
    none = ask("ltv_per_paying_customer", "2026-02-01", "2026-02-28")
    assert units(chart(none, SEEN), "ltv") == [None]


def test_periods_of_first_seen_customers_are_complete_when_their_time_is_over() -> None:
    """Today is 20 March; after 7 days, 12 March is complete and 13 and 16 March are not."""
    data = chart(ask("conversion_to_paying", "2026-03-12", "2026-03-16", Resolution.DAY), [])
    assert [one.complete for one in data.periods] == [True, False, False, False, False]
    unbounded = replace(data.request, selectors={"conversion_timeframe": "unbounded"})
    assert not any(one.complete for one in chart(unbounded, []).periods)


def test_only_the_current_period_is_incomplete_elsewhere() -> None:
    data = chart(ask("revenue", "2026-02-01", "2026-12-31"), [])
    assert [(one.label, one.complete) for one in data.periods] == [("2026-02", True), ("2026-03", False)]
    cut = chart(ask("revenue", "2026-01-15", "2026-02-14"), [])
    assert [(one.first.isoformat(), one.last.isoformat(), one.complete) for one in cut.periods] == [
        ("2026-01-15", "2026-01-31", False),
        ("2026-02-01", "2026-02-14", False),
    ]


def test_subscription_status_is_a_picture_of_now() -> None:
    facts = [
        fact(Kind.STATUS, "2026-03-01", 330, usd(330), n=0),
        fact(Kind.STATUS, "2026-03-01", 86, usd(86), n=1),
        fact(Kind.STATUS, "2026-03-01", 10, usd(10), n=2),
        fact(Kind.STATUS, "2026-03-01", 7, n=3),
        fact(Kind.STATUS, "2026-04-01", -330, usd(-330), n=0),
    ]
    request = ask("subscription_status", "2025-01-01", "2025-01-31")
    data = chart(request, facts)
    assert {one.id: one.total for one in data.series} == {
        "set_to_renew": 330,
        "set_to_cancel": 86,
        "billing_issue": 10,
        "total": 426,
    }
    assert [one.label for one in data.periods] == ["2026-03-20"]
    assert units(chart(replace(request, selectors={"measure": "arr"}), facts), "total") == [5112]
    assert values(chart(replace(request, selectors={"measure": "trials"}), facts), "set_to_renew") == (7,)


def test_renewal_rate_by_number() -> None:
    facts = [
        fact(Kind.RENEWAL_DUE, "2026-02-01", 10, n=1),
        fact(Kind.RENEWED, "2026-02-01", 6, n=1),
        fact(Kind.RENEWAL_DUE, "2026-02-02", 10, n=12),
        fact(Kind.RENEWED, "2026-02-02", 9, n=12),
    ]
    request = ask("renewal_rate", "2026-02-01", "2026-02-28")
    assert values(chart(request, facts), "renewal_rate") == (0.75,)
    by_number = chart(replace(request, segment="renewal_number"), facts)
    assert [(one.title, one.total) for one in by_number.drawn] == [
        ("Renewal 1", 0.6),
        ("Renewal 12 and later", 0.9),
        ("Renewal rate", 0.75),
    ]


def test_billing_issues_and_what_became_of_them() -> None:
    facts = [fact(Kind.BILLING_ISSUE, "2026-02-01", n + 1, usd(n + 1), n=n) for n in range(4)]
    data = chart(ask("billing_recovery", "2026-02-01", "2026-02-28"), facts)
    # 2 recovered in time and 3 later, 4 lost, 1 open.
    assert total(data, "recovery_rate") == pytest.approx(5 / 9)
    assert values(data, "open") == (1,)
    assert (units(data, "amount_recovered"), units(data, "amount_lost")) == ([5], [4])


def test_retention_is_of_the_first_cohort() -> None:
    """100 in December: 70 paid month 1, 52 month 2. 30 in February: 20 renewed already, 6 are set to."""
    facts = [
        fact(Kind.RETAINED, "2025-12-10", 100, n=0, of=Dimensions(duration="P1M")),
        fact(Kind.RETAINED, "2025-12-10", 70, n=1, of=Dimensions(duration="P1M")),
        fact(Kind.RETAINED, "2025-12-10", 52, n=2, of=Dimensions(duration="P1M")),
        fact(Kind.RETAINED, "2026-02-15", 30, n=0, of=Dimensions(duration="P1M")),
        fact(Kind.RETAINED, "2026-02-15", 20, n=1, of=Dimensions(duration="P1M")),
        fact(Kind.RETAINED_SOON, "2026-02-15", 6, n=1, of=Dimensions(duration="P1M")),
        fact(Kind.RETAINED, "2026-02-15", 9, n=0, of=Dimensions(duration="P1Y")),
    ]
    data = chart(ask("subscription_retention", "2025-12-01", "2026-02-28"), facts)
    heat = data.heat_map
    assert data.drawing is Drawing.HEAT_MAP
    assert heat is not None
    december, january, february = heat.rows
    assert [(one.value, one.share, one.complete) for one in december.cells[:3]] == [
        (100, 1, True),
        (70, 0.7, True),
        (52, 0.52, True),
    ]
    # Period 3 began on 10 March for the first of them, and nobody has paid it yet.
    assert [(one.value, one.complete) for one in december.cells[3:]] == [(0, False)]
    assert (january.size, january.cells[0].value) == (0, None)
    assert [(one.value, one.complete) for one in february.cells] == [
        (30, True),
        (26, False),
        (None, False),
        (None, False),
    ]
    # The share of all leaves out what is provisional, the number does not.
    assert (heat.total.cells[1].value, heat.total.cells[1].share) == (96, 0.7)


def test_retention_by_country_is_of_those_old_enough() -> None:
    """DE: 80 started in December and 20 in March; 52 of the 80 paid month 2: 65 %."""
    of = Dimensions(duration="P1M", country="DE")
    facts = [
        fact(Kind.RETAINED, "2025-12-10", 80, n=0, of=of),
        fact(Kind.RETAINED, "2025-12-10", 60, n=1, of=of),
        fact(Kind.RETAINED, "2025-12-10", 52, n=2, of=of),
        fact(Kind.RETAINED, "2026-03-01", 20, n=0, of=of),
    ]
    data = chart(ask("subscription_retention", "2025-12-01", "2026-03-31", segment="country"), facts)
    assert data.heat_map is not None
    (row,) = data.heat_map.rows
    assert (row.label, row.size) == ("DE", 100)
    assert (row.cells[2].value, row.cells[2].share) == (52, 0.65)


def test_cohort_explorer_grows_with_the_lifetime() -> None:
    data = chart(ask("cohort_explorer", "2026-01-01", "2026-01-31"), SEEN)
    assert data.heat_map is not None
    (row,) = data.heat_map.rows
    assert row.size == 400
    assert [one.value for one in row.cells] == [
        0,
        1_500_000,
        1_500_000,
        1_400_000,
        1_400_000,
        None,
        None,
        None,
        1_400_000,
    ]
    assert [one.complete for one in row.cells[:5]] == [True, True, True, True, False]
