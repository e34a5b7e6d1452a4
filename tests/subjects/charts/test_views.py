"""Currencies of display, segments, comparison, and requests that are refused."""

from datetime import date
from typing import Any

import pytest
from msgspec.structs import replace

from latchkey.domain.charts.period_amounts import minus
from latchkey.domain.money.exchange_rates import NO_RATES, DayRate
from latchkey.domain.money.pinned_rates import REFERENCE
from latchkey.domain.refusal import Invalid
from latchkey.subjects.charts.rules.chart_requests import preceding
from latchkey.subjects.charts.rules.definition import CHARTS, GROUPS, Definition, Drawing
from latchkey.subjects.charts.rules.facts import Filter, Kind, Resolution
from tests.subjects.charts.answers import (
    ask,
    at,
    chart,
    fact,
    foreign,
    total,
    units,
    usd,
)
from tests.subjects.charts.fact import Dimensions

DE, US = Dimensions(country="DE", product="a"), Dimensions(country="US", product="b")

RATES = NO_RATES.plus(
    [
        DayRate("EUR", at("2026-02-01") // 86_400_000, "1.25"),
        DayRate("EUR", at("2026-02-10") // 86_400_000, "1.20"),
        DayRate("EUR", at("2026-02-28") // 86_400_000, "1.00"),
    ]
)


def test_amounts_in_the_currency_of_display_are_as_they_were_paid() -> None:
    facts = [
        fact(Kind.PAYMENT, "2026-02-01", 1, foreign(10, 12.5), currency="EUR"),
        # 9.90 USD at the rate of the day.
        fact(Kind.PAYMENT, "2026-02-02", 1, foreign(1500, 9.9), currency="JPY"),
        fact(Kind.PAYMENT, "2026-02-10", 1, usd(6)),
        fact(Kind.PAYMENT, "2026-02-10", 1, foreign(100, None), currency="XTS"),
    ]
    euros = chart(ask("revenue", "2026-02-01", "2026-02-28", currency="EUR"), facts, rates=RATES)
    assert units(euros, "revenue") == [10 + 7.92 + 5]
    assert (euros.left_out.payments, euros.left_out.currencies) == (1, ("XTS",))
    assert euros.currency == "EUR"
    dollars = chart(ask("revenue", "2026-02-01", "2026-02-28"), facts, rates=RATES)
    assert units(dollars, "revenue") == [12.5 + 9.9 + 6]


def test_a_day_without_a_rate_has_the_reference_rate() -> None:
    payment = fact(Kind.PAYMENT, "2026-01-05", 2, usd(6))
    data = chart(ask("revenue", "2026-01-01", "2026-01-31", currency="EUR"), [payment], rates=RATES)
    assert units(data, "revenue") == [round(6 / float(REFERENCE["EUR"].usd), 6)]
    assert data.left_out.payments == 0


def test_a_subscription_whose_renewal_has_no_rate_is_left_out_and_counted() -> None:
    """In USD the first price is one of dollars and the difference one of pounds, which has no quantity of its own."""
    paid, unknown = foreign(10, 12.5), foreign(10, None)
    facts = [
        fact(Kind.ACTIVE, "2026-01-05", 1, paid, currency="GBP"),
        fact(Kind.ACTIVE, "2026-02-05", 0, minus(unknown, paid), currency="GBP"),
    ]
    for currency in ("USD", "EUR"):
        data = chart(ask("mrr", "2026-02-01", "2026-02-28", currency=currency), facts, rates=RATES)
        found = units(data, "mrr"), data.left_out.payments, data.left_out.currencies
        assert found == ([0], 1, ("GBP",)), currency


@pytest.mark.parametrize("currency", ["USD", "EUR"])
def test_a_refund_of_a_part_without_a_rate_is_left_out_and_counted(currency: str) -> None:
    refund = fact(Kind.REFUND, "2026-01-05", 0, foreign(-3, None), currency="GBP")
    data = chart(ask("revenue", "2026-01-01", "2026-01-31", currency=currency), [refund], rates=RATES)
    found = units(data, "revenue"), data.left_out.payments, data.left_out.currencies
    assert found == ([0], 1, ("GBP",))


def test_the_movement_of_mrr_shows_what_exchange_rates_did() -> None:
    """12.00 USD are 9.60 EUR on the first day and 12.00 EUR on the last."""
    facts = [fact(Kind.ACTIVE, "2026-02-01", 1, usd(12)), fact(Kind.NEW, "2026-02-01", 1, usd(12))]
    data = chart(ask("mrr_movement", "2026-02-01", "2026-02-28", currency="EUR"), facts, rates=RATES)
    assert (units(data, "new"), units(data, "exchange"), units(data, "movement")) == ([9.6], [2.4], [12])


def test_at_most_ten_segments_and_the_rest_as_other() -> None:
    facts = [
        fact(Kind.PAYMENT, "2026-02-01", 1, usd(place + 1), of=Dimensions(country=f"C{place:02}"))
        for place in range(12)
    ]
    facts.append(fact(Kind.PAYMENT, "2026-02-01", 1, usd(100)))
    data = chart(ask("revenue", "2026-02-01", "2026-02-28", segment="country"), facts)
    drawn = [(one.title, one.segment, one.is_other, one.total) for one in data.drawn]
    assert drawn[0] == ("Not known", "", False, 100_000_000)
    assert drawn[1] == ("C11", "C11", False, 12_000_000)
    assert drawn[-1] == ("Other", "other", True, 6_000_000)
    assert len(drawn) == 11
    assert total(data, "revenue") == sum(one.total or 0 for one in data.drawn) == 178_000_000
    assert data.drawing is Drawing.STACKED_BARS


def test_compared_with_the_period_before() -> None:
    facts = [
        fact(Kind.PAYMENT, "2026-01-15", 1, usd(3), of=DE),
        fact(Kind.PAYMENT, "2026-02-15", 1, usd(5), of=US),
        fact(Kind.PAYMENT, "2025-11-15", 1, usd(7), of=US),
        fact(Kind.PAYMENT, "2025-10-15", 1, usd(9), of=Dimensions(country="FR")),
    ]
    request = ask("revenue", "2026-01-01", "2026-02-28", compare=True)
    data = chart(request, facts)
    assert data.previous is not None
    assert [one.label for one in data.previous.periods] == ["2025-11", "2025-12"]
    assert data.previous.series[0].values == (7_000_000, 0)
    segmented = chart(replace(request, segment="country"), facts)
    assert segmented.previous is not None
    assert [one.id for one in segmented.previous.series] == [one.id for one in segmented.series]
    known = {one.id: one.total for one in segmented.previous.series}
    assert (known["revenue:US"], known["revenue:DE"], known["revenue"]) == (7_000_000, 0, 7_000_000)


@pytest.mark.parametrize("definition", CHARTS, ids=lambda one: one.name)
def test_every_chart_stands_without_any_facts(definition: Definition) -> None:
    request = ask(definition.name, "2026-01-05", "2026-03-31", Resolution.WEEK, compare=True, currency="EUR")
    data = chart(request, [])
    assert data.is_empty
    assert all(len(series.values) == len(data.periods) for series in data.series)
    assert definition.words.endswith(".")
    if definition.segments:
        assert chart(replace(request, segment=definition.segments[0]), []).is_empty


def test_every_chart_is_listed_under_a_known_heading() -> None:
    assert {one.group for one in CHARTS} == set(GROUPS)
    assert len({one.name for one in CHARTS}) == len(CHARTS)


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"first": date(2026, 3, 1)}, "start_date"),
        ({"first": date(1990, 1, 1)}, "start_date"),
        ({"first": date(2016, 1, 1), "resolution": Resolution.DAY}, "resolution"),
        ({"currency": "euro"}, "currency"),
        ({"filters": (Filter("colour", ("red",)),)}, "filters"),
        ({"filters": (Filter("country", ()),)}, "filters"),
        ({"segment": "colour"}, "segment"),
        ({"selectors": {"revenue_type": "net"}}, "selectors"),
        ({"selectors": {"duration": "P1M"}}, "selectors"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(wrong: dict[str, Any], param: str) -> None:
    with pytest.raises(Invalid) as refused:
        chart(replace(ask("revenue", "2026-01-01", "2026-02-28"), **wrong), [])
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("first", "last", "resolution", "before"),
    [
        ("2026-02-10", "2026-02-16", Resolution.DAY, ("2026-02-03", "2026-02-09")),
        ("2026-02-10", "2026-02-16", Resolution.WEEK, ("2026-02-03", "2026-02-09")),
        ("2026-02-10", "2026-02-17", Resolution.WEEK, ("2026-01-27", "2026-02-03")),
        ("2026-03-01", "2026-03-31", Resolution.MONTH, ("2026-02-01", "2026-02-28")),
        ("2026-01-01", "2026-03-16", Resolution.MONTH, ("2025-10-01", "2025-12-16")),
        ("2026-01-15", "2026-02-14", Resolution.MONTH, ("2025-12-15", "2026-01-14")),
    ],
)
def test_the_preceding_period_has_as_many_periods(
    first: str, last: str, resolution: Resolution, before: tuple[str, str]
) -> None:
    found = preceding(date.fromisoformat(first), date.fromisoformat(last), resolution)
    assert tuple(one.isoformat() for one in found) == before
