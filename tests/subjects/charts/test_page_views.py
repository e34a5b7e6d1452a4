"""The addresses, words and tables of chart pages, without a browser."""

from datetime import date
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latchkey.dashboard.form import Form
from latchkey.subjects.charts.page import presentation as words
from latchkey.subjects.charts.page.view import (
    RANGES,
    ChartView,
    Offered,
    ViewEnvironment,
    applied,
    dates_of,
    params,
    query_of,
    summary_line,
    usual_resolution,
    view_of,
)
from latchkey.subjects.charts.rules import figures
from latchkey.subjects.charts.rules.chart import ChartPeriod, Value
from latchkey.subjects.charts.rules.definition import BY_NAME, CHARTS, Choice, Unit
from latchkey.subjects.charts.rules.facts import Filter, Resolution

NOW = 1_773_964_800_000
TODAY = date(2026, 3, 20)
OFFERED = Offered(
    environments=[
        ViewEnvironment("PRODUCTION", "Production", NOW),
        ViewEnvironment("SANDBOX", "Sandbox", NOW),
        ViewEnvironment("clk_1", "A year of Ada", NOW + 365 * 86_400_000),
    ],
    dimensions={"experiment:exp_1": "Paywall", "attribute:plan": "plan"},
    experiments=(Choice("exp_1", "Paywall"),),
    usual="PRODUCTION",
)


def asked(name: str, query: str = "") -> ChartView:
    return view_of(BY_NAME[name], Form(parse_qsl(query, keep_blank_values=True)), OFFERED)


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("7d", date(2026, 3, 14), TODAY),
        ("12m", date(2025, 4, 1), TODAY),
        ("24m", date(2024, 4, 1), TODAY),
        ("month", date(2026, 3, 1), TODAY),
        ("last_month", date(2026, 2, 1), date(2026, 2, 28)),
        ("year", date(2026, 1, 1), TODAY),
        ("last_year", date(2025, 1, 1), date(2025, 12, 31)),
    ],
)
def test_ranges_by_name(name: str, first: date, last: date) -> None:
    assert dates_of(name, TODAY) == (first, last)


def test_a_page_opens_on_the_last_90_days_by_week_compared_with_the_period_before() -> None:
    view = asked("mrr")
    assert (view.range, view.request.first, view.request.last) == ("90d", date(2025, 12, 21), TODAY)
    assert (view.request.resolution, view.request.currency, view.request.compare) == (Resolution.WEEK, "USD", True)
    assert query_of(view, OFFERED) == ""


def test_cohorts_open_on_the_last_12_months_by_month() -> None:
    view = asked("subscription_retention")
    assert (view.range, view.request.resolution) == ("12m", Resolution.MONTH)
    assert view.request.selectors == {"duration": "P1M"}
    assert not view.request.compare


def test_everything_that_was_chosen_is_in_the_address() -> None:
    query = (
        "environment=sandbox&range=dates&from=2026-01-01&to=2026-01-31&by=week&segment=country"
        "&filter.product=pro_monthly&filter.product=pro_yearly&filter.store=~&filter.attribute%3Aplan=gold"
        "&currency=EUR&revenue_type=proceeds&compare=yes"
    )
    view = asked("revenue", query)
    request = view.request
    assert (request.environment, request.first, request.last) == ("SANDBOX", date(2026, 1, 1), date(2026, 1, 31))
    assert (request.resolution, request.segment, request.currency) == (Resolution.WEEK, "country", "EUR")
    assert request.filters == (
        Filter("product", ("pro_monthly", "pro_yearly")),
        Filter("store", ("",)),
        Filter("attribute:plan", ("gold",)),
    )
    assert (request.selectors, request.compare) == ({"revenue_type": "proceeds"}, True)
    assert sorted(params(view, OFFERED)) == sorted(parse_qsl(query))
    assert summary_line(view, OFFERED) == (
        "Sandbox · 2026-01-01 to 2026-01-31 · by week · broken down by country · Product: pro_monthly or pro_yearly"
        " · Store: Not known · plan: gold · EUR"
    )


NAMES = [
    "range", "from", "to", "by", "environment", "currency", "segment", "compare", "filter.store", "add_filter",
    "revenue_type", "customer_lifetime", "duration", "measure", "experiment", "filter.experiment:exp_1",
]  # fmt: skip
VALUES = [
    *RANGES, "2026-01-01", "2025-01-01", "day", "week", "month", "sandbox", "clk_1", "EUR", "store", "yes", "no",
    "proceeds", "30_days", "P1Y", "mrr", "ltv", "exp_1", "a", "", "~", "moon", "experiment:exp_1",
]  # fmt: skip


@given(
    st.sampled_from(CHARTS),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=8),
)
def test_an_address_made_from_a_view_asks_for_the_same_view(chart: object, query: list[tuple[str, str]]) -> None:
    definition = BY_NAME[chart.name]  # type: ignore[attr-defined]  # a Definition; hypothesis shows its name only
    view = view_of(definition, Form(query), OFFERED)
    again = view_of(definition, Form(params(view, OFFERED)), OFFERED)
    assert again.request == view.request
    assert again.environment == view.environment


@pytest.mark.parametrize(
    "query", ["range=moon", "by=moon", "environment=moon", "currency=XXX", "segment=moon", "filter.moon=1", "compare=2"]
)
def test_what_nobody_offered_counts_as_the_usual(query: str) -> None:
    assert asked("mrr", query) == asked("mrr")


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("from=2026-02-30&to=2026-03-01", "Dates are written like 2027-01-31."),
        ("range=dates", "Dates are written like 2027-01-31."),
        ("from=2026-03-02&to=2026-03-01", "The first day is after the last one."),
        ("from=2001-01-01&to=2026-03-01", "At most 7,320 days can be shown at once."),
        ("from=1971-01-01&to=1971-03-01", "Dates lie between 2000-01-01 and the end of next year."),
    ],
)
def test_dates_that_make_no_sense_are_explained(query: str, problem: str) -> None:
    view = asked("mrr", query)
    assert view.problem == problem
    assert view.request == asked("mrr").request


def test_many_years_are_shown_by_month_and_never_by_day() -> None:
    years = "from=2016-01-01&to=2026-03-01"
    assert asked("mrr", years).request.resolution is Resolution.MONTH
    assert asked("mrr", f"{years}&by=day").request.resolution is Resolution.WEEK
    assert asked("mrr", "from=2024-01-01&to=2026-03-01&by=day").request.resolution is Resolution.DAY


def test_a_test_clock_has_its_own_today() -> None:
    assert asked("mrr", "environment=clk_1").request.last == date(2027, 3, 20)


def test_broken_down_charts_are_not_compared_unless_asked() -> None:
    assert not asked("mrr", "segment=store").request.compare
    assert asked("mrr", "segment=store&compare=yes").request.compare


def test_a_filter_lists_its_values_and_can_be_removed() -> None:
    view = asked("mrr", "filter.store=app_store&filter.store=gone&filter.country=DE&add_filter=product")
    found = applied(view, OFFERED, {"store": ["app_store", "play_store", ""], "product": ["pro"]})
    assert [one.title for one in found] == ["Store", "Country", "Product"]
    assert found[0].values == [
        ("app_store", "App Store", True),
        ("play_store", "Play Store", False),
        ("~", "Not known", False),
        ("gone", "gone", True),
    ]
    assert found[0].without == "?filter.country=DE"
    assert found[2].values == [("pro", "pro", False)]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, Unit.MONEY, "$0"),
        (1_500, Unit.MONEY, "$1.5k"),
        (-12_500, Unit.MONEY, "−$12.5k"),
        (2_500_000, Unit.COUNT, "2.5M"),
        (0.25, Unit.MONEY, "$0.25"),
        (40, Unit.SHARE, "40 %"),
        (2.5, Unit.SHARE, "2.5 %"),
        (999, Unit.COUNT, "999"),
    ],
)
def test_axes_have_short_numbers(value: float, unit: Unit, text: str) -> None:
    assert words.axis(value, unit, "USD") == text


@pytest.mark.parametrize(
    ("value", "before", "unit", "said"),
    [
        (None, 1, Unit.COUNT, ("no value yet", "")),
        (1, None, Unit.COUNT, ("no earlier value", "")),
        (1, 1, Unit.COUNT, ("no change", "")),
        (3, 2, Unit.COUNT, ("▲ 50 %", "up")),
        (1, 2, Unit.MONEY, ("▼ 50 %", "down")),
        (1, 0, Unit.COUNT, ("▲ from 0", "up")),
        (0, 2, Unit.COUNT, ("▼ 100 %", "down")),
        (0, -2, Unit.COUNT, ("▲ 100 %", "up")),
        (-4, 2, Unit.COUNT, ("▼ 6", "down")),
        (5_000_000, -2_500_000, Unit.MONEY, ("▲ $7.50", "up")),
        (-3, -2, Unit.COUNT, ("▼ 50 %", "down")),
        (36, 1, Unit.COUNT, ("▲ 36 times", "up")),
        (0.05, 0.04, Unit.SHARE, ("▲ 1.0 points", "up")),
    ],
)
def test_a_change_is_told_with_its_direction(value: Value, before: Value, unit: Unit, said: tuple[str, str]) -> None:
    assert figures.change(value, before, unit, "USD") == said


def test_where_falling_is_good_a_rise_is_not() -> None:
    assert figures.change(0.05, 0.04, Unit.SHARE, None, falling_is_good=True) == ("▲ 1.0 points", "down")


def test_long_ranges_are_shown_by_week_or_month() -> None:
    named = [dates_of(name, TODAY) for name in ("7d", "28d", "90d", "12m")]
    assert [usual_resolution(span) for span in named] == ["day", "day", "week", "month"]


@pytest.mark.parametrize(
    ("first", "last", "resolution", "shown"),
    [
        (date(2026, 1, 5), date(2026, 12, 31), Resolution.DAY, "5 Jan"),
        (date(2025, 1, 5), date(2026, 12, 31), Resolution.DAY, "Jan 2025"),
        (date(2025, 1, 5), date(2026, 12, 31), Resolution.WEEK, "Jan 2025"),
        (date(2026, 1, 1), date(2026, 12, 31), Resolution.MONTH, "Jan 2026"),
    ],
)
def test_the_axis_names_the_year_where_there_is_more_than_one(
    first: date, last: date, resolution: Resolution, shown: str
) -> None:
    label = f"{first:%Y-%m}" if resolution is Resolution.MONTH else first.isoformat()
    periods = [
        ChartPeriod(first=first, last=first, label=label, complete=True),
        ChartPeriod(first=last, last=last, label=last.isoformat(), complete=True),
    ]
    assert words.ticks(periods, resolution)[0] == shown
