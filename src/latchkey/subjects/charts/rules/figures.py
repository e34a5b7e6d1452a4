"""The numbers of a chart in words: a value, its change, and the headlines of the overview."""

from collections.abc import Sequence

from msgspec import Struct

from latchkey.domain.formats import money, number, percent
from latchkey.subjects.charts.rules.chart import ChartData, Series, Value
from latchkey.subjects.charts.rules.definition import Unit
from latchkey.subjects.charts.rules.facts import Resolution

# The charts of the overview.
CARDS = (
    *("mrr", "arr", "actives", "trials", "revenue", "customers_new", "customers_paying"),
    *("churn", "trial_conversion_rate", "refund_rate"),
)
# Short titles for cards.
TITLES = {"mrr": "MRR", "arr": "ARR", "trial_conversion_rate": "Trial conversion"}
# Charts whose values are better when they fall.
FALLING_IS_GOOD = frozenset({"churn", "refund_rate"})
# From here on "12 times" is easier to read than "1,100 %".
_TIMES = 10


class Headline(Struct, frozen=True):
    title: str
    value: str
    # What the value is: "in total", "at the end", "overall".
    words: str
    change: str
    kind: str


def full(value: Value, unit: Unit, currency: str | None) -> str:
    if value is None:
        return "–"
    match unit:
        case Unit.MONEY:
            return money(value, currency)
        case Unit.SHARE:
            return percent(value).replace("-", "−")
        case Unit.COUNT:
            return number(value).replace("-", "−")


def change(
    value: Value, before: Value, unit: Unit, currency: str | None, *, falling_is_good: bool = False
) -> tuple[str, str]:
    """The change since the period before, and whether that is good ("up"), bad ("down") or neither ("")."""
    if value is None or before is None:
        return ("no value yet" if value is None else "no earlier value"), ""
    moved = value - before
    if not moved:
        return "no change", ""
    kind = "up" if (moved > 0) != falling_is_good else "down"
    arrow = "▲" if moved > 0 else "▼"
    if unit is Unit.SHARE:
        return f"{arrow} {abs(moved) * 100:.1f} points", kind
    if not before:
        return f"{arrow} from 0", kind
    if value * before < 0:
        # From a loss to a gain, or back: a percentage of the one would say nothing about the other.
        return f"{arrow} {full(abs(moved), unit, currency)}", kind
    if abs(value) > _TIMES * abs(before):
        return f"{arrow} {value / before:,.0f} times", kind
    return f"{arrow} {abs(moved) / abs(before) * 100:,.0f} %", kind


def main_series(data: ChartData) -> Series | None:
    """The one number of a chart: the net, or the first series of everything."""
    whole = [series for series in data.series if series.segment is None and series.unit is data.unit]
    return next((one for one in whole if one.is_net), whole[0] if whole else None)


def headline(data: ChartData, one: Series) -> Headline:
    before = next((old for old in data.previous.series if old.id == one.id), None) if data.previous else None
    moved, kind = "", ""
    if before is not None:
        good = data.definition.name in FALLING_IS_GOOD and one.unit is Unit.SHARE
        moved, kind = change(one.total, before.total, one.unit, data.currency, falling_is_good=good)
    value = full(one.total, one.unit, data.currency)
    return Headline(one.title, value, total_words(data, one), moved, kind if one is main_series(data) else "")


def total_words(data: ChartData, one: Series | None) -> str:
    if data.definition.is_snapshot:
        return "now"
    if data.definition.is_level:
        return "at the end"
    unit = one.unit if one else data.unit
    is_average = unit is Unit.SHARE or (data.definition.is_of_first_seen and one is main_series(data))
    return "overall" if is_average else "in total"


def card_headline(data: ChartData, main: Series) -> Headline:
    """Of a card of the overview, or of the list of charts."""
    earlier = data.previous.series if data.previous else ()
    match data.definition.name:
        case "trial_conversion_rate":
            return _changed(data, main, _decided(data.series), _decided(earlier))
        case "churn" if is_by_week(data):
            before = next((_average(series.values) for series in earlier if series.id == main.id), None)
            return _changed(data, main, _average(main.values), before, falling_is_good=True)
        case _:
            return headline(data, main)


def is_by_week(data: ChartData) -> bool:
    """Churn is divided by the subscriptions at the start. Over a year that is somebody else's number: in a project that
    grows it would be above 100 %."""
    return data.definition.name == "churn" and data.request.resolution is not Resolution.DAY


def _average(values: Sequence[Value]) -> Value:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _changed(data: ChartData, main: Series, value: Value, before: Value, *, falling_is_good: bool = False) -> Headline:
    moved, kind = change(value, before, main.unit, data.currency, falling_is_good=falling_is_good)
    return Headline(main.title, full(value, main.unit, data.currency), "overall", moved, kind)


def _decided(series: tuple[Series, ...]) -> Value:
    """The rate, unless all trials still run: then nothing is known yet."""
    found = {line.measure: line.total for line in series if line.segment is None}
    return None if not found or found["trials"] == found["pending"] else found["conversion_rate"]
