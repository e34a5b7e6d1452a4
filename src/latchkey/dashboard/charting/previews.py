"""Charts as small cards: the number, its change, and a line. For the list of charts and the overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from latchkey.dashboard.charting import words
from latchkey.dashboard.charting.asking import Environment
from latchkey.dashboard.charting.miniatures import Miniature, miniature
from latchkey.dashboard.charting.ranges import today
from latchkey.dashboard.charting.showing import Headline, headline, main_series
from latchkey.dashboard.drawing.bars import Spark, spark
from latchkey.domain.charts.chart import ChartData, ChartRequest, Series, Value
from latchkey.domain.charts.definitions.definition import Definition, Drawing
from latchkey.domain.charts.definitions.listing import BY_NAME, CHARTS
from latchkey.domain.charts.fact import Resolution
from latchkey.domain.purchases.purchase import USD

SECTIONS = {
    "Revenue": ("mrr", "mrr_movement", "arr", "revenue"),
    "Subscriptions": ("actives", "actives_movement", "actives_new", "subscription_status"),
    "Trials": ("trials", "trials_movement", "trials_new", "trial_conversion_rate"),
    "Customers": ("customers_new", "customers_paying", "initial_conversion", "conversion_to_paying"),
    "Retention and LTV": (
        "subscription_retention",
        "cohort_explorer",
        "ltv_per_customer",
        "ltv_per_paying_customer",
    ),
    "Health": ("churn", "renewal_rate", "billing_recovery", "refund_rate"),
    "Experiments": ("experiment_results",),
}
# The list of charts shows this many days, by day.
DAYS = 28
# Charts whose preview is a line over these days.
LINES = tuple(
    one.name for one in CHARTS if one.drawing not in (Drawing.HEAT_MAP, Drawing.INTERVALS) and not one.is_snapshot
)


def requests(names: Sequence[str], environment: Environment, days: int, currency: str = USD) -> list[ChartRequest]:
    """The last days, today among them, compared with as many before. A year is shown by week."""
    last = today(environment.now)
    return [
        ChartRequest(
            name=name,
            environment=environment.id,
            first=last - timedelta(days=days - 1),
            last=last,
            resolution=Resolution.DAY if days <= 92 else Resolution.WEEK,
            currency=currency,
            compare=True,
        )
        for name in names
    ]


@dataclass(frozen=True, slots=True)
class Preview:
    definition: Definition
    # None for charts that are no line: cohorts, experiments.
    headline: Headline | None
    spark: Spark | None
    # For those, a picture of their own, or the first sentence of the definition if there is nothing to draw.
    miniature: Miniature | None
    about: str
    # What the number is of, if not of all days together.
    per: str = ""


def preview(definition: Definition, data: ChartData | None) -> Preview:
    main = main_series(data) if data else None
    if data is None or main is None or definition.name not in LINES:
        drawn = miniature(data) if data is not None else None
        about = "" if drawn is not None else definition.words.partition(". ")[0].rstrip(".") + "."
        return Preview(definition, None, None, drawn, about)
    values = [words.number_of(value, main.unit) for value in main.values]
    running = sum(not one.complete for one in data.periods[-2:])
    per = "a week on average" if _is_by_week(data) else ""
    return Preview(definition, _headline(data, main), spark(values, running=running), None, "", per)


def grouped(found: Mapping[str, ChartData]) -> list[tuple[str, list[Preview]]]:
    """All charts under their headings."""
    return [(title, [preview(BY_NAME[name], found.get(name)) for name in names]) for title, names in SECTIONS.items()]


def _headline(data: ChartData, main: Series) -> Headline | None:
    match data.definition.name:
        case "trial_conversion_rate":
            earlier = data.previous.series if data.previous else ()
            return _changed(data, main, _decided(data.series), _decided(earlier))
        case "churn" if _is_by_week(data):
            known = [one for one in data.previous.series if one.id == main.id] if data.previous else []
            before = _average(known[0].values) if known else None
            return _changed(data, main, _average(main.values), before, falling_is_good=True)
        case _:
            return headline(data)


def _is_by_week(data: ChartData) -> bool:
    """Churn is divided by the subscriptions at the start. Over a year that is somebody else's number: in a project that
    grows it would be above 100 %."""
    return data.definition.name == "churn" and data.request.resolution is not Resolution.DAY


def _average(values: Sequence[Value]) -> Value:
    known = [one for one in values if one is not None]
    return sum(known) / len(known) if known else None


def _changed(data: ChartData, main: Series, value: Value, before: Value, *, falling_is_good: bool = False) -> Headline:
    moved, kind = words.change(value, before, main.unit, data.currency, falling_is_good=falling_is_good)
    return Headline(main.title, words.full(value, main.unit, data.currency), "overall", moved, kind)


def _decided(series: tuple[Series, ...]) -> Value:
    """The rate, unless all trials still run: then nothing is known yet."""
    found = {one.measure: one.total for one in series if one.segment is None}
    return None if not found or found["trials"] == found["pending"] else found["conversion_rate"]
