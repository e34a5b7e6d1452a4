"""Breakdowns over many periods, without reading every value of the dimension in every period.

A year by day and by country can have a hundred thousand sums, of which ten countries are shown. So a chart like that is
read in two steps: all values by month, to find the largest; then these by day, and all others as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from latchkey.domain.charts.chart import ChartRequest
from latchkey.domain.charts.computing.asking import BY_N, questions_of
from latchkey.domain.charts.sums import Question, Resolution

# Questions about fewer periods are asked at once.
FEW_PERIODS = 40
_DAYS = {Resolution.DAY: 1, Resolution.WEEK: 7, Resolution.MONTH: 28}


def is_wide(request: ChartRequest) -> bool:
    if request.segment is None or request.segment in BY_N:
        return False
    asked = questions_of(request)[0]
    return (asked.last - asked.first) // _DAYS[asked.resolution] >= FEW_PERIODS


def by_month(request: ChartRequest) -> ChartRequest:
    """The same chart with few periods."""
    return replace(request, resolution=Resolution.MONTH, compare=False)


def narrowed(questions: Sequence[Question], largest: Sequence[str] | None) -> list[Question]:
    """The same questions, with all but the largest segments as one."""
    if largest is None:
        return list(questions)
    return [one if one.segment is None else one._replace(largest=tuple(largest)) for one in questions]
