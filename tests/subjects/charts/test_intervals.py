"""Results of experiments, against values from textbooks and by hand."""

import pytest

from latchkey.subjects.charts.rules.experiment_results import difference, probability_better, wilson
from latchkey.subjects.charts.rules.facts import Kind
from tests.subjects.charts.answers import ask, chart, fact, foreign, usd
from tests.subjects.charts.fact import Dimensions, Fact

OLD, NEW = Dimensions(variants=("price=old",)), Dimensions(variants=("price=new",))


def enrolled(of: Dimensions, customers: int, payers: int, each: float) -> list[Fact]:
    cents = round(each * 100)
    return [
        fact(Kind.ENROLLED, "2026-02-01", customers, of=of),
        fact(Kind.ENROLLED_CONVERTED, "2026-02-01", payers, n=1, of=of),
        fact(Kind.ENROLLED_PAYER, "2026-02-01", payers, n=1, of=of),
        fact(Kind.ENROLLED_REVENUE, "2026-02-01", payers, usd(each * payers), n=1, of=of),
        fact(Kind.ENROLLED_SQUARE, "2026-02-01", payers * cents * cents, n=1, of=of),
    ]


def test_wilsons_interval() -> None:
    # 81 of 263 is an example of Newcombe's paper (1998): 0.2553 to 0.3662.
    found = wilson(81, 263)
    assert found.low == pytest.approx(0.2553, abs=5e-5)
    assert found.high == pytest.approx(0.3662, abs=5e-5)
    assert wilson(0, 10).low == 0
    assert wilson(10, 10).high == 1
    assert wilson(0, 0).value is None


def test_newcombes_interval_of_a_difference() -> None:
    # 56 of 70 against 48 of 80 is the first example of Newcombe's paper on differences: 0.0524 to 0.3339.
    found = difference(wilson(56, 70), wilson(48, 80))
    assert found.value == pytest.approx(0.2)
    assert found.low == pytest.approx(0.0524, abs=5e-5)
    assert found.high == pytest.approx(0.3339, abs=5e-5)


def test_the_probability_to_be_better() -> None:
    assert probability_better((50, 100), (50, 100)) == pytest.approx(0.5)
    clear = probability_better((70, 100), (50, 100))
    assert clear is not None
    assert clear > 0.99
    assert probability_better((1, 0), (1, 2)) is None


def test_an_experiments_results() -> None:
    """Old: 100 customers, 20 pay 10.00. New: 100 customers, 30 pay 12.00."""
    facts = [*enrolled(OLD, 100, 20, 10), *enrolled(NEW, 100, 30, 12), fact(Kind.ENROLLED, "2026-02-01", 7)]
    request = ask("experiment_results", "2026-01-01", "2026-03-31", selectors={"experiment": "price"})
    old, new = chart(request, facts, variants=("old", "new")).variants
    assert (old.variant, old.is_control, old.customers, old.payers, old.revenue) == ("old", True, 100, 20, 200_000_000)
    assert (old.conversion_difference, old.probability_better) == (None, None)
    assert old.revenue_per_customer.value == 2_000_000
    # Variance of (20 x 10.00, 80 x 0) is (2000 - 4 x 100) / 99 = 16.16; the mean's error is 0.402.
    assert old.revenue_per_customer.low == pytest.approx(2_000_000 - 1.96 * 402_000, rel=1e-3)
    assert new.conversion_to_paying.value == 0.3
    assert new.conversion_difference is not None
    assert new.conversion_difference.value == pytest.approx(0.1)
    assert new.probability_better == pytest.approx(0.95, abs=0.01)
    assert new.revenue_difference is not None
    assert new.revenue_difference.value == 1_600_000


def test_too_little_data_has_no_interval_of_revenue() -> None:
    facts = [*enrolled(OLD, 10, 2, 10), *enrolled(NEW, 10, 0, 0)]
    request = ask("experiment_results", "2026-01-01", "2026-03-31", selectors={"experiment": "price"})
    new, old = chart(request, facts).variants
    assert old.revenue_per_customer.value == 2_000_000
    assert old.revenue_per_customer.low is None
    assert new.conversion_to_paying.low == 0


def test_only_what_falls_into_the_chosen_time_counts() -> None:
    facts = [
        *enrolled(OLD, 10, 2, 10),
        fact(Kind.ENROLLED_REVENUE, "2026-02-01", 1, foreign(9, 10), n=4, currency="EUR", of=OLD),
    ]
    request = ask(
        "experiment_results",
        "2026-01-01",
        "2026-03-31",
        selectors={"experiment": "price", "conversion_timeframe": "7_days"},
    )
    (old,) = chart(request, facts).variants
    assert old.revenue == 20_000_000
