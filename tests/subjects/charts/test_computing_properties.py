"""What holds for every chart, whatever the facts."""

from collections.abc import Sequence
from datetime import date, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from latchkey.domain.charts.period_amounts import PeriodMoney
from latchkey.domain.instants import DAY
from latchkey.domain.money.exchange_rates import NO_RATES, DayRate
from latchkey.subjects.charts.rules.chart import MOST_SEGMENTS, ChartData
from latchkey.subjects.charts.rules.definition import BY_NAME, Unit
from latchkey.subjects.charts.rules.facts import Kind, Resolution, day_of
from tests.subjects.charts.answers import ask, chart
from tests.subjects.charts.fact import Dimensions, Fact

FIRST = date(2026, 1, 1)
START = day_of(FIRST)
RATES = NO_RATES.plus(DayRate("EUR", START + day, f"1.{day + 100}") for day in range(0, 90, 7))

CURRENCIES = st.sampled_from(["USD", "EUR", "JPY"])
DIMENSIONS = st.builds(Dimensions, product=st.sampled_from(["", "a", "b"]), country=st.sampled_from("ABCDEFGHIJKLM"))
DAYS = st.integers(-20, 89)
AMOUNTS = st.integers(1, 50_000_000)


@st.composite
def subscriptions(draw: st.DrawFn) -> list[Fact]:
    """The facts of one paid subscription that obey the identities of `fact.py`."""
    of, currency = draw(DIMENSIONS), draw(CURRENCIES)
    start, length = draw(DAYS), draw(st.integers(1, 60))
    amount, later = draw(AMOUNTS), draw(AMOUNTS)
    change = draw(st.integers(0, length))

    def at(day: int) -> int:
        return (START + day) * DAY + 5

    def one(kind: Kind, day: int, quantity: int, micros: int, n: int = 0) -> Fact:
        money = PeriodMoney(micros, micros // 7, micros // 5, micros // 2, micros // 14, micros // 10)
        if currency == "USD":
            money = PeriodMoney(*money[:3], *money[:3])
        return Fact(kind, at(day), n, currency, quantity, money, of)

    began = draw(st.sampled_from([Kind.NEW, Kind.RETURN]))
    # Amounts of a change are the difference of two levels in every part.
    before, after = one(Kind.ACTIVE, change, 0, amount).money, one(Kind.ACTIVE, change, 0, later).money
    grown = PeriodMoney(*(new - old for new, old in zip(after, before, strict=True)))
    kind = Kind.EXPANSION if grown.micros >= 0 else Kind.CONTRACTION
    sign = 1 if kind is Kind.EXPANSION else -1
    ended = PeriodMoney(*(-part for part in after))
    return [
        one(Kind.ACTIVE, start, 1, amount),
        one(began, start, 1, amount, draw(st.integers(0, 2))),
        Fact(Kind.ACTIVE, at(start + change), 0, currency, 0, grown, of),
        Fact(kind, at(start + change), 0, currency, 0, PeriodMoney(*(sign * part for part in grown)), of),
        Fact(Kind.ACTIVE, at(start + length), 0, currency, -1, ended, of),
        one(Kind.CHURN, start + length, 1, later),
    ]


@st.composite
def trials(draw: st.DrawFn) -> list[Fact]:
    of, start, fate = draw(DIMENSIONS), draw(DAYS), draw(st.sampled_from([1, 2]))
    begins, ends = (START + start) * DAY, (START + start + draw(st.integers(1, 14))) * DAY
    return [
        Fact(Kind.TRIAL, begins, 0, "", 1, dimensions=of),
        Fact(Kind.TRIAL, ends, 0, "", -1, dimensions=of),
        Fact(Kind.TRIAL_STARTED, begins, fate, "", 1, dimensions=of),
        Fact(Kind.TRIAL_ENDED, ends, fate, "", 1, dimensions=of),
    ]


@st.composite
def flows(draw: st.DrawFn) -> list[Fact]:
    """Any other kind."""
    kinds = [one for one in Kind if not one.startswith(("active", "trial", "status", "new", "return", "churn"))]
    kind = draw(st.sampled_from([one for one in kinds if one not in (Kind.EXPANSION, Kind.CONTRACTION)]))
    micros = draw(AMOUNTS)
    currency = draw(CURRENCIES)
    money = PeriodMoney(micros, micros // 7, micros // 5, micros, micros // 7, micros // 5)
    at = (START + draw(DAYS)) * DAY
    return [Fact(kind, at, draw(st.integers(0, 8)), currency, draw(st.integers(1, 3)), money, draw(DIMENSIONS))]


BOOKS = st.lists(subscriptions() | trials() | flows(), max_size=6).map(
    lambda found: [one for some in found for one in some]
)
NAMES = st.sampled_from(sorted(name for name, chart in BY_NAME.items() if chart.has_series))
CHOSEN_CURRENCY = st.sampled_from(["USD", "EUR"])
RESOLUTIONS = st.sampled_from(list(Resolution))


def of_all(data: ChartData) -> dict[str, Sequence[float | None]]:
    return {one.measure: one.values for one in data.series if one.segment is None}


@given(BOOKS, NAMES, CHOSEN_CURRENCY, RESOLUTIONS, st.sampled_from(["country", "product"]))
def test_segments_add_up_to_the_total(
    facts: list[Fact], name: str, currency: str, resolution: Resolution, segment: str
) -> None:
    definition = BY_NAME[name]
    if segment not in definition.segments:
        return
    request = ask(name, "2026-02-08", "2026-03-31", resolution, currency=currency)
    whole = of_all(chart(request, facts, rates=RATES))
    data = chart(replace(request, segment=segment), facts, rates=RATES)
    total = of_all(data)
    segments = {one.segment for one in data.series if one.segment is not None}
    assert len(segments) <= MOST_SEGMENTS + 1
    for measure, values in total.items():
        parts = [one for one in data.series if one.segment is not None and one.measure == measure]
        if not parts or parts[0].unit is Unit.SHARE or measure in ("ltv", "customers"):
            continue
        added = tuple(
            sum(value or 0 for value in column) for column in zip(*(one.values for one in parts), strict=True)
        )
        assert added == values
        # Rounding of converted amounts is at most a millionth for each row.
        assert all(
            abs((mine or 0) - (theirs or 0)) <= len(facts)
            for mine, theirs in zip(values, whole.get(measure, values), strict=True)
        )


@given(BOOKS, CHOSEN_CURRENCY, RESOLUTIONS)
def test_movements_explain_the_levels(facts: list[Fact], currency: str, resolution: Resolution) -> None:
    request = ask("mrr_movement", "2026-02-08", "2026-03-31", resolution, currency=currency)
    movement = chart(request, facts, rates=RATES)
    levels = of_all(chart(replace(request, name="mrr"), facts, rates=RATES))["mrr"]
    day_before = request.first - timedelta(days=1)
    start = ask("mrr", str(day_before), str(day_before), Resolution.DAY, currency=currency)
    running = of_all(chart(start, facts, rates=RATES))["mrr"][0] or 0
    parts = [one for one in movement.series if not one.is_net]
    for place, level in enumerate(levels):
        change = sum(one.values[place] or 0 for one in parts)
        assert change == of_all(movement)["movement"][place]
        running += change
        assert running == level
    if currency == "USD":
        assert "exchange" not in of_all(movement)
    for name, of in (("actives_movement", "actives"), ("trials_movement", "trials")):
        changes = of_all(chart(replace(request, name=name), facts))["movement"]
        counts = of_all(chart(replace(request, name=of), facts))[of]
        assert [after - before for before, after in pairwise(counts)] == list(changes[1:])  # type: ignore[operator]


@given(BOOKS, NAMES, CHOSEN_CURRENCY, st.sampled_from([Resolution.WEEK, Resolution.MONTH]))
def test_weeks_and_months_agree_with_days(facts: list[Fact], name: str, currency: str, resolution: Resolution) -> None:
    definition = BY_NAME[name]
    if definition.is_snapshot:
        return
    request = ask(name, "2026-02-08", "2026-03-31", Resolution.DAY, currency=currency)
    days = chart(request, facts, rates=RATES)
    longer = chart(replace(request, resolution=resolution), facts, rates=RATES)
    daily = of_all(days)
    for one in longer.series:
        if one.unit is Unit.SHARE or one.measure in ("ltv", "actives"):
            continue
        if one.measure not in daily:
            continue
        for period, value in zip(longer.periods, one.values, strict=True):
            inside = [
                of_day
                for day, of_day in zip(days.periods, daily[one.measure], strict=True)
                if period.first <= day.first <= period.last
            ]
            assert value == (inside[-1] if definition.is_level else sum(inside))  # type: ignore[arg-type]
    assert days.left_out == longer.left_out
