"""The plain answer to a question about facts: reads all of them. DuckDB must answer the same, only faster."""

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from latchkey.domain.charts.period_amounts import NO_MONEY, PeriodMoney
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchases.purchase import USD
from latchkey.subjects.charts.rules.definition import ATTRIBUTE, EXPERIMENT
from latchkey.subjects.charts.rules.facts import LEVELS, REST, Amounts, Day, Filter, Kind, Question, Run, period_of
from tests.subjects.charts.fact import Dimensions, Fact, Sum, plus

_Key: TypeAlias = tuple[Kind, int, Day | None, str, str]


def sum_facts(facts: Iterable[Fact], question: Question, now: Ms, largest: Collection[str] | None = None) -> list[Sum]:
    """The facts are those of the environment asked for. Rows in which everything is zero are left out. All segments but
    the largest are one, if these are named."""
    found: dict[_Key, tuple[int, PeriodMoney]] = {}
    for fact in facts:
        period = _period(fact, question, now)
        if isinstance(period, _Outside) or not all(_matches(fact.dimensions, one) for one in question.filters):
            continue
        n = wanted_n(question, fact.kind, fact.n)
        if n is None:
            continue
        currency, amount = wanted_money(question, fact.currency, fact.money)
        for segment in _segments(fact.dimensions, question.segment):
            shown = segment if question.segment is None or largest is None or segment in largest else REST
            key = fact.kind, n, period, shown, currency
            quantity, money = found.get(key, (0, NO_MONEY))
            found[key] = quantity + fact.quantity, plus(money, amount)
    rows = [Sum(*key, quantity, money) for key, (quantity, money) in found.items() if quantity or any(money)]
    return sorted(rows, key=lambda row: (row.kind, row.n, -1 if row.period is None else row.period, *row[3:5]))


def wanted_n(question: Question, kind: Kind, n: int) -> int | None:
    """None: it does not count."""
    for one, most in question.any_n:
        if one is kind:
            return 0 if most is None or n <= most else None
    return n


def wanted_money(question: Question, currency: str, money: PeriodMoney) -> tuple[str, PeriodMoney]:
    """The currency and the money of a fact or of a sum, as a question wants them."""
    shown = USD if currency and not money.unconverted else currency
    usd, tax, commission = money.usd, money.tax_usd, money.commission_usd
    match question.amounts:
        case Amounts.ALL:
            return currency, money
        case Amounts.USD:
            return shown, PeriodMoney(usd, tax, commission, usd, tax, commission, money.unconverted)
        case Amounts.GROSS_USD:
            return shown, PeriodMoney(usd, 0, 0, usd, 0, 0, money.unconverted)
        case Amounts.DISPLAY:
            if currency == question.currency:
                shown, usd, tax, commission = currency, money.micros, money.tax, money.commission
            return shown, PeriodMoney(usd, tax, commission, usd, tax, commission, money.unconverted)
        case Amounts.NONE:
            return "", NO_MONEY


def values_of(dimensions: Dimensions, dimension: str) -> tuple[str, ...]:
    """The values of a fact in one dimension: one, or "" for none. A customer can be in one variant of an experiment."""
    if dimension.startswith(EXPERIMENT):
        return _tagged(dimensions.variants, dimension.removeprefix(EXPERIMENT) + "=")
    if dimension.startswith(ATTRIBUTE):
        return _tagged(dimensions.attributes, dimension.removeprefix(ATTRIBUTE) + "=")
    return (getattr(dimensions, dimension),)


def _tagged(tags: Sequence[str], prefix: str) -> tuple[str, ...]:
    """The values of the tags that begin with the prefix; "" for none."""
    return tuple(one.removeprefix(prefix) for one in tags if one.startswith(prefix)) or ("",)


class _Outside:
    """The fact is not asked for."""


def _period(fact: Fact, question: Question, now: Ms) -> Day | _Outside | None:
    day = fact.at // DAY
    if fact.kind not in question.kinds or fact.at > now or day > question.last:
        return _Outside()
    if day >= question.first:
        return period_of(day, question.resolution)
    return None if fact.kind in LEVELS else _Outside()


def _matches(dimensions: Dimensions, wanted: Filter) -> bool:
    return any(value in wanted.values for value in values_of(dimensions, wanted.dimension))


def _segments(dimensions: Dimensions, segment: str | None) -> tuple[str, ...]:
    return ("",) if segment is None else values_of(dimensions, segment)


def sums_of(runs: Iterable[Run]) -> list[Sum]:
    return [
        Sum(run.kind, run.n, period, run.segment, run.currency, quantity, money)
        for run in runs
        for period, quantity, money in zip(
            run.periods,
            run.quantities,
            map(PeriodMoney._make, zip(*run.money, strict=True)) if run.money else [NO_MONEY] * len(run.periods),
            strict=True,
        )
    ]


def runs_of(sums: Iterable[Sum]) -> list[Run]:
    """No two of the sums have the same kind, n, period, segment and currency."""
    found: dict[tuple[Kind, int, str, str], list[Sum]] = {}
    for one in sums:
        found.setdefault((one.kind, one.n, one.segment, one.currency), []).append(one)
    return [
        Run(
            *key,
            [one.period for one in rows],
            [one.quantity for one in rows],
            list(map(list, zip(*(one.money for one in rows), strict=True))),
        )
        for key, rows in found.items()
    ]
