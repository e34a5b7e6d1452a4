"""Breakdowns that are read in steps show the same as those that are read at once."""

from random import Random

import pytest

from latchkey.domain.charts.period_amounts import PeriodMoney
from latchkey.domain.instants import DAY
from latchkey.domain.money.exchange_rates import NO_RATES, DayRate
from latchkey.subjects.charts.rules.chart_requests import is_wide
from latchkey.subjects.charts.rules.definition import BY_NAME, Unit
from latchkey.subjects.charts.rules.facts import LEVELS, Kind, Resolution
from tests.subjects.charts.answers import ask, at, chart, chart_in_steps
from tests.subjects.charts.fact import Dimensions, Fact

START = at("2026-01-01")
RATES = NO_RATES.plus(DayRate("EUR", START // DAY + day, f"1.{day + 100}") for day in range(0, 80, 7))
SEGMENTED = sorted(
    one.name for one in BY_NAME.values() if one.has_series and "country" in one.segments and not one.is_snapshot
)


def some_facts(seed: int) -> list[Fact]:
    chance = Random(seed)
    found = []
    for _ in range(400):
        kind = chance.choice(list(Kind))
        of = Dimensions(product=chance.choice("abcdefghijklmno"), country=chance.choice("ABCDEFGHIJKLMNO"))
        micros = chance.randint(1, 50_000_000)
        money = PeriodMoney(micros, micros // 7, micros // 5, micros, micros // 7, micros // 5)
        currency = chance.choice(("USD", "EUR"))
        when = START + chance.randint(-20, 77) * DAY
        found.append(Fact(kind, when, chance.randint(0, 8), currency, chance.randint(1, 3), money, of))
        if kind in LEVELS and chance.random() < 0.5:
            minus = PeriodMoney(*(-part for part in money))
            found.append(found[-1]._replace(at=when + 9 * DAY, quantity=-found[-1].quantity, money=minus))
    return found


@pytest.mark.parametrize("name", SEGMENTED)
def test_a_breakdown_read_in_steps_is_the_same(name: str) -> None:
    facts = some_facts(len(name))
    for segment, currency in (("country", "USD"), ("product", "EUR")):
        if segment not in BY_NAME[name].segments:
            continue
        request = ask(name, "2026-01-04", "2026-03-18", Resolution.DAY, currency=currency, segment=segment)
        assert is_wide(request)
        at_once, in_steps = chart(request, facts, rates=RATES), chart_in_steps(request, facts, rates=RATES)
        assert at_once.left_out == in_steps.left_out
        assert [one.is_other for one in in_steps.series].count(True) == [one.is_other for one in at_once.series].count(
            True
        )
        known = {one.id: one for one in at_once.series if not one.is_other}
        # Months can rank segments in another order than days, so the ten need not be the same.
        shared = [one for one in in_steps.series if one.id in known]
        assert shared[-1].segment is None
        assert len(shared) > len(known) / 2
        for one in shared:
            for mine, theirs in zip(one.values, known[one.id].values, strict=True):
                assert (mine is None) == (theirs is None)
                assert abs((mine or 0) - (theirs or 0)) <= (1e-6 if one.unit is Unit.SHARE else len(facts))


def test_retention_by_day_has_the_largest_segments_and_all_others_as_one() -> None:
    facts = [
        one._replace(dimensions=one.dimensions._replace(duration="P1M"))
        for seed in range(8)
        for one in some_facts(seed)
    ]
    request = ask("subscription_retention", "2026-01-04", "2026-03-18", Resolution.DAY, segment="country")
    at_once, in_steps = chart(request, facts).heat_map, chart_in_steps(request, facts).heat_map
    assert at_once is not None
    assert in_steps is not None
    known = {row.label: row for row in at_once.rows}
    assert len(known) > len(in_steps.rows) == 11
    assert all(known[row.label] == row for row in in_steps.rows[:-1])
    assert in_steps.rows[-1].label == "Other"
    assert sum(row.size for row in in_steps.rows) == sum(row.size for row in at_once.rows)
    assert in_steps.total == at_once.total


def test_few_periods_are_read_at_once() -> None:
    assert not is_wide(ask("revenue", "2026-01-01", "2026-01-31", Resolution.DAY, segment="country"))
    assert not is_wide(ask("revenue", "2025-01-01", "2026-03-01", Resolution.MONTH, segment="country"))
    assert not is_wide(ask("revenue", "2025-01-01", "2026-03-01", Resolution.DAY, segment="transaction_type"))
    # Conversion to another currency goes by day.
    assert is_wide(ask("revenue", "2025-01-01", "2026-03-01", Resolution.MONTH, segment="country", currency="EUR"))
