"""Charts computed from plain lists of facts."""

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from typing import Any

from msgspec.structs import replace

from latchkey.domain.charts.period_amounts import PeriodMoney
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.money.amounts import MICROS
from latchkey.domain.money.exchange_rates import NO_RATES, Rates
from latchkey.subjects.charts.rules.chart import ChartData, ChartRequest, Value
from latchkey.subjects.charts.rules.chart_requests import before, checked, questions_of
from latchkey.subjects.charts.rules.compute import compute, largest_segments
from latchkey.subjects.charts.rules.facts import Kind, Question, Resolution, Run, day_of
from tests.subjects.charts.fact import NO_DIMENSIONS, Dimensions, Fact
from tests.subjects.charts.summing import runs_of, sum_facts

NOW = day_of(date(2026, 3, 20)) * DAY + DAY // 2


def at(when: str, hour: int = 12) -> Ms:
    return day_of(date.fromisoformat(when)) * DAY + hour * DAY // 24


def usd(amount: float, *, tax: float = 0, commission: float = 0) -> PeriodMoney:
    micros, taxes, fee = (round(one * MICROS) for one in (amount, tax, commission))
    return PeriodMoney(micros, taxes, fee, micros, taxes, fee)


def foreign(amount: float, in_usd: float | None) -> PeriodMoney:
    """An amount in another currency than USD, and what it was worth then; None without a rate."""
    if in_usd is None:
        return PeriodMoney(round(amount * MICROS), unconverted=1)
    return PeriodMoney(round(amount * MICROS), usd=round(in_usd * MICROS))


def fact(
    kind: Kind,
    when: str,
    quantity: int = 1,
    money: PeriodMoney | None = None,
    *,
    n: int = 0,
    currency: str | None = None,
    of: Dimensions = NO_DIMENSIONS,
) -> Fact:
    if money is None:
        return Fact(kind, at(when), n, "", quantity, dimensions=of)
    return Fact(kind, at(when), n, currency or "USD", quantity, money, of)


def negative(one: Fact, when: str) -> Fact:
    return one._replace(at=at(when), quantity=-one.quantity, money=PeriodMoney(*(-part for part in one.money)))


def ask(name: str, first: str, last: str, resolution: Resolution = Resolution.MONTH, **options: Any) -> ChartRequest:
    return ChartRequest(
        name=name,
        environment="PRODUCTION",
        first=date.fromisoformat(first),
        last=date.fromisoformat(last),
        resolution=resolution,
        **options,
    )


def chart(
    request: ChartRequest,
    facts: Iterable[Fact],
    now: Ms = NOW,
    rates: Rates = NO_RATES,
    variants: Sequence[str] = (),
) -> ChartData:
    known = list(facts)

    def answered(asked: ChartRequest) -> list[Run]:
        return runs_of(row for one in questions_of(asked, rates) for row in sum_facts(known, one, now))

    request = checked(request, now)
    earlier = answered(before(request)) if request.compare else []
    return compute(request, answered(request), now, rates=rates, earlier=earlier, variants=variants)


def chart_in_steps(request: ChartRequest, facts: Iterable[Fact], now: Ms = NOW, rates: Rates = NO_RATES) -> ChartData:
    """The same for a breakdown in two steps: the largest segments by month, then these and all others as one."""
    known = list(facts)

    def answered(questions: Iterable[Question], largest: Collection[str] | None = None) -> list[Run]:
        return runs_of(row for one in questions for row in sum_facts(known, one, now, largest))

    request = checked(request, now)
    rough = replace(request, resolution=Resolution.MONTH, compare=False)
    largest = largest_segments(rough, answered(questions_of(rough, rates)), now, rates=rates)
    if largest is None:
        return chart(request, known, now, rates)
    return compute(request, answered(questions_of(request, rates), largest), now, rates=rates)


def values(data: ChartData, id: str) -> tuple[Value, ...]:
    return next(one.values for one in data.series if one.id == id)


def units(data: ChartData, id: str) -> list[float | None]:
    """Money in whole units."""
    return [None if value is None else value / MICROS for value in values(data, id)]


def total(data: ChartData, id: str) -> Value:
    return next(one.total for one in data.series if one.id == id)
