"""Values of dimensions as people call them."""

from __future__ import annotations

from dataclasses import replace

from latchkey.domain.charts.chart import ChartData, Series
from latchkey.domain.charts.definitions.definition import DURATION
from latchkey.usecases.money.fees import TITLES

NOT_KNOWN = "Not known"
_DURATIONS = {one.id: one.title for one in DURATION.choices}


def value_title(dimension: str, value: str) -> str:
    if not value:
        return NOT_KNOWN
    match dimension:
        case "store":
            return TITLES.get(value, value)
        case "duration":
            return _DURATIONS.get(value, value)
        case _:
            return value


def titled(data: ChartData) -> ChartData:
    """The same chart with stores and durations by their names."""
    if data.request.segment not in ("store", "duration"):
        return data
    previous = data.previous
    if previous is not None:
        previous = replace(previous, series=tuple(_titled(data.request.segment, one) for one in previous.series))
    series = tuple(_titled(data.request.segment, one) for one in data.series)
    return replace(data, series=series, previous=previous)


def _titled(dimension: str, one: Series) -> Series:
    if not one.segment or one.is_other:
        return one
    name, colon, measure = one.title.partition(": ")
    return replace(one, title=value_title(dimension, one.segment) + colon + measure) if name == one.segment else one
