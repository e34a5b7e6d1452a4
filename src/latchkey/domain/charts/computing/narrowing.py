"""Breakdowns over many periods, without reading every value of the dimension in every period.

A year by day and by country can have a hundred thousand sums, of which ten countries are shown. So a chart like that is
read in steps: all values by month, to find the largest; these alone by day; and everything without a breakdown. What is
left of everything is "Other".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from latchkey.domain.charts.chart import ChartRequest
from latchkey.domain.charts.computing.asking import BY_N, definition_of, questions_of
from latchkey.domain.charts.definitions.drawing import Drawing
from latchkey.domain.charts.fact import NO_MONEY, Kind, Money, minus
from latchkey.domain.charts.sums import Day, Filter, Question, Resolution, Sum

# Questions about fewer periods are asked at once.
FEW_PERIODS = 40
# The segment of everything that has no series of its own. No value of a dimension has this character.
REST = "\0"
_DAYS = {Resolution.DAY: 1, Resolution.WEEK: 7, Resolution.MONTH: 28}


def is_wide(request: ChartRequest) -> bool:
    if request.segment is None or request.segment in BY_N:
        return False
    if definition_of(request.name).drawing is Drawing.HEAT_MAP:
        return False
    asked = questions_of(request)[0]
    return (asked.last - asked.first) // _DAYS[asked.resolution] >= FEW_PERIODS


def by_month(request: ChartRequest) -> ChartRequest:
    """The same chart with few periods."""
    return replace(request, resolution=Resolution.MONTH, compare=False)


def narrowed(questions: Sequence[Question], largest: Sequence[str]) -> tuple[list[Question], list[Question]]:
    """Questions about the largest segments, and those about everything. A question without a segment stays as it is, in
    the first list."""
    inside: list[Question] = []
    everything: list[Question] = []
    for one in questions:
        if one.segment is None:
            inside.append(one)
        else:
            inside.append(one._replace(filters=(*one.filters, Filter(one.segment, tuple(largest)))))
            everything.append(one._replace(segment=None))
    return inside, everything


def with_rest(inside: Sequence[Sum], everything: Iterable[Sum]) -> list[Sum]:
    """The sums of the largest segments, and what everything has besides them as the segment REST."""
    left: dict[tuple[Kind, int, Day | None, str], tuple[int, Money]] = {}
    kinds: set[Kind] = set()
    for kind, n, period, _, currency, quantity, money in everything:
        kinds.add(kind)
        left[kind, n, period, currency] = quantity, money
    for kind, n, period, _, currency, quantity, money in inside:
        if kind in kinds:
            had, amount = left.get((kind, n, period, currency), (0, NO_MONEY))
            left[kind, n, period, currency] = had - quantity, minus(amount, money)
    rest = [
        Sum(kind, n, period, REST, currency, quantity, money)
        for (kind, n, period, currency), (quantity, money) in left.items()
        if quantity or any(money)
    ]
    return [*inside, *rest]
