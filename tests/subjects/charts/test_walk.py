"""Every chart with each of its options, over one small history: what must add up does, and CSV and API say the same."""

import csv
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import pytest
from msgspec import structs
from msgspec.structs import replace

from latchkey.domain.charts.period_amounts import NO_MONEY, PeriodMoney
from latchkey.domain.customers.customer import Attribute, Enrollment
from latchkey.domain.money.amounts import MICROS
from latchkey.domain.money.exchange_rates import NO_RATES, DayRate
from latchkey.domain.purchases.purchase import Expired, Rate, Reason, Terms
from latchkey.domain.purchases.subscription import Cause
from latchkey.subjects.charts.render import chart as rendered
from latchkey.subjects.charts.render import chart_csv
from latchkey.subjects.charts.rules.chart import ChartData, ChartRequest, Value
from latchkey.subjects.charts.rules.chart_requests import before, checked
from latchkey.subjects.charts.rules.definition import CHARTS, Definition, Unit
from latchkey.subjects.charts.rules.facts import Filter, Kind, Resolution
from tests.subjects.charts.answers import NOW, ask, chart
from tests.subjects.charts.books import SHOP, TRIAL, at, bought, customer, money, period, subscription
from tests.subjects.charts.derived import Issue, Origin, Person, facts_of_each
from tests.subjects.charts.fact import Fact, plus

EUROS = Terms(Rate("1.10", "2026-01-10"), 0.16, 0.25)
RATES = NO_RATES.plus(DayRate("EUR", at("01-01") // 86_400_000 + day, f"1.{10 + day}") for day in range(0, 90, 7))
VARIANTS = ("a", "b")


@cache
def history() -> list[Fact]:
    """Trials, renewals, an upgrade, refunds, a failed payment, one-time purchases, and people who buy nothing; in two
    currencies, stores and countries, with an experiment and an attribute."""
    ends = Expired("x", at("03-04"), Reason.BILLING_ERROR)
    people = [
        customer(
            subscription(
                period("01-05", "01-12", type=TRIAL, country="US"),
                period("01-12", "02-12", 10, cause=Cause.CONVERSION, country="US"),
                period("02-12", "03-12", 10, country="US"),
                period("03-12", "04-12", 12, country="US"),
            ),
            id="ann",
        ),
        customer(
            subscription(
                period("01-10", "02-10", money(8, "EUR"), terms=EUROS, country="DE", part=3, told="01-25"),
                period("02-10", "02-20", money(8, "EUR"), terms=EUROS, country="DE"),
                period("02-20", "2027-02-20", money(80, "EUR"), product="yearly", cause=Cause.CHANGE, terms=EUROS),
                store="play_store",
                id="bob's",
            ),
            bought("02-03", 3, id="b1"),
            seen="01-08",
            id="bob",
        ),
        customer(subscription(period("02-02", "03-02", 10, refunded="02-20", country="FR"), id="c"), id="cleo"),
        customer(
            structs.replace(
                subscription(period("02-01", "03-01", 10, country="DE"), id="d", auto_renew=True), expired=ends
            ),
            id="dan",
        ),
        customer(subscription(period("03-15", "03-22", type=TRIAL, country="US"), id="e", auto_renew=False), id="eve"),
        customer(bought("03-02", 5, id="f1", refunded="03-09"), bought("03-05", 5, id="f2"), seen="02-27", id="finn"),
        customer(seen="03-01", id="gil"),
    ]
    issues = {("app_store", "d"): [Issue(at("03-01"), "d 02-01 monthly")]}
    found: list[Person] = []
    for number, person in enumerate(people):
        enrolled = Enrollment("exp", "Experiment", VARIANTS[number % 2], person.first_seen_at)
        team = Attribute("red" if number % 2 else "blue", NOW)
        person = structs.replace(person, enrollments=(enrolled,), attributes={"team": team})
        origin = Origin("iOS" if number % 2 else "android", f"1.{number}", "")
        found.append(Person(person, SHOP, issues, origin, attributes=("team",)))
    return [fact for facts in facts_of_each(found) for fact in facts]


def segments(definition: Definition) -> list[str]:
    own = [*definition.segments]
    wanted = [*own, "attribute:team", "experiment:exp"]
    return [one for one in wanted if definition.allows_segment(one)]


def draw(request: ChartRequest) -> ChartData:
    return chart(request, history(), rates=RATES, variants=VARIANTS if request.name == "experiment_results" else ())


def numbers(data: ChartData) -> Iterator[tuple[float, float | None]]:
    """What CSV says and what the API says of each value of a series."""
    table = list(csv.reader(chart_csv(data).splitlines()))
    for place, row in enumerate(table[1:]):
        for one, cell in zip(data.series, row[3:], strict=True):
            value = one.values[place]
            if cell:
                yield float(cell), shown(value, one.unit)
            else:
                assert value is None


def shown(value: Value, unit: Unit) -> float | None:
    return None if value is None else value / MICROS if unit is Unit.MONEY else value


@pytest.mark.parametrize("definition", CHARTS, ids=lambda one: one.name)
def test_every_option_of_a_chart(definition: Definition) -> None:
    selectors = {"experiment": "exp"} if definition.name == "experiment_results" else {}
    for resolution in Resolution:
        for currency in ("USD", "EUR") if definition.has_money else ("USD",):
            plain = ask(definition.name, "2026-01-06", "2026-03-20", resolution, currency=currency, selectors=selectors)
            whole = draw(plain)
            assert not whole.is_empty, definition.name
            _agrees_with_its_files(whole)
            _compares(plain)
            for segment in segments(definition):
                _adds_up(draw(replace(plain, segment=segment)))
    for selector in definition.selectors:
        for choice in selector.choices:
            draw(ask(definition.name, "2026-01-06", "2026-03-20", selectors={**selectors, selector.name: choice.id}))
    for dimension in (*definition.filters, "attribute:team"):
        nobody = Filter(dimension, ("no such value",))
        assert draw(ask(definition.name, "2026-01-06", "2026-03-20", filters=(nobody,), selectors=selectors))


def _agrees_with_its_files(data: ChartData) -> None:
    told = rendered(data)
    if data.heat_map is not None:
        rows = list(csv.DictReader(chart_csv(data).splitlines()))
        cells = [cell for row in (*data.heat_map.rows, data.heat_map.total) for cell in row.cells]
        assert [float(row["value"]) for row in rows] == pytest.approx(
            [shown(cell.value, data.heat_map.unit) for cell in cells if cell.value is not None]
        )
        return
    if data.variants:
        rows = list(csv.DictReader(chart_csv(data).splitlines()))
        assert [int(row["customers"]) for row in rows] == [one.customers for one in data.variants]
        return
    for written, value in numbers(data):
        assert written == pytest.approx(value, abs=1e-6)
    by_api = [one.value for one in told.values]
    percent = {Unit.SHARE: 100.0}
    mine = [
        None if value is None else (shown(value, one.unit) or 0) * percent.get(one.unit, 1)
        for one in data.series
        for value in one.values
    ]
    assert by_api == pytest.approx(mine, abs=1e-5)


def _compares(request: ChartRequest) -> None:
    """The period before is the same chart at the earlier dates."""
    data = draw(replace(request, compare=True))
    if data.previous is None:
        return
    earlier = draw(before(checked(request, NOW)))
    assert {one.id: one.values for one in data.previous.series if any(one.values)} == {
        one.id: one.values for one in earlier.series if any(one.values)
    }


def _adds_up(data: ChartData) -> None:
    """Counts and money of the segments add up to those of the total beside them. Customers are everybody's."""
    parts: dict[str, list[tuple[Value, ...]]] = defaultdict(list)
    for one in data.series:
        if one.segment is not None and one.unit is not Unit.SHARE and one.measure not in ("ltv", "customers"):
            parts[one.measure].append(one.values)
    total = {one.measure: one.values for one in data.series if one.segment is None}
    tags = (data.request.segment or "").startswith(("attribute:", "experiment:"))
    for measure, columns in parts.items():
        if measure in total and not tags:
            assert tuple(sum(value or 0 for value in column) for column in zip(*columns, strict=True)) == total[measure]


@pytest.mark.parametrize(
    ("enrolled", "seen"),
    [
        (Kind.ENROLLED, Kind.CUSTOMER),
        (Kind.ENROLLED_CONVERTED, Kind.SEEN_CONVERTED),
        (Kind.ENROLLED_PAYER, Kind.SEEN_PAYER),
        (Kind.ENROLLED_REVENUE, Kind.SEEN_REVENUE),
    ],
)
def test_who_is_enrolled_when_first_seen_counts_the_same_in_an_experiment(enrolled: Kind, seen: Kind) -> None:
    def sums(kind: Kind) -> dict[tuple[int, str], tuple[int, PeriodMoney]]:
        found: dict[tuple[int, str], tuple[int, PeriodMoney]] = {}
        for one in history():
            if one.kind is kind:
                quantity, amount = found.get((one.n, one.currency), (0, NO_MONEY))
                found[one.n, one.currency] = quantity + one.quantity, plus(amount, one.money)
        return found

    assert sums(enrolled) == sums(seen)
    assert sums(seen)
