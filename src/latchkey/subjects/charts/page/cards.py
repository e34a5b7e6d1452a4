"""Charts as small cards: the number, its change, and a line. For the list of charts and the overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from latchkey.dashboard import texts
from latchkey.dashboard.drawing.bars import Spark, spark
from latchkey.dashboard.drawing.ranks import Interval, Rank, intervals, ranks
from latchkey.domain.purchases.purchase import USD
from latchkey.subjects.charts.page import figures as words
from latchkey.subjects.charts.page.presentation import Headline, headline, main_series
from latchkey.subjects.charts.page.view import Environment, Offered, today
from latchkey.subjects.charts.rules.chart import ChartData, ChartRequest, HeatMap, Series, Value
from latchkey.subjects.charts.rules.chart_list import BY_NAME, CHARTS
from latchkey.subjects.charts.rules.definition import Definition, Drawing
from latchkey.subjects.charts.rules.facts import LIFETIMES, Resolution

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


# Cohorts and columns of a small heat map.
_ROWS, _COLUMNS = 5, 7
# So many months of cohorts are read.
_MONTHS = 6


@dataclass(frozen=True, slots=True)
class Tile:
    # In percent of the picture.
    x: float
    y: float
    width: float
    height: float
    # 0 to 1.
    strength: float


@dataclass(frozen=True, slots=True)
class Miniature:
    # The number of the card, and what it is; both may be empty.
    value: str
    note: str
    tiles: tuple[Tile, ...] = ()
    ranks: tuple[Rank, ...] = ()
    estimates: tuple[Interval | None, ...] = ()


def miniature_requests(environment: Environment, offered: Offered) -> list[ChartRequest]:
    """The cohorts of the last months, how subscriptions stand now, and the first experiment of the list."""
    last = today(environment.now)
    month = last.year * 12 + last.month - _MONTHS
    first = date(month // 12, month % 12 + 1, 1)
    found = [
        ChartRequest(name=name, environment=environment.id, first=first, last=last, resolution=Resolution.MONTH)
        for name in ("subscription_retention", "cohort_explorer", "subscription_status")
    ]
    if experiments := offered.choices.get("experiment"):
        chosen = {"experiment": experiments[0].id}
        found.append(
            ChartRequest(
                name="experiment_results", environment=environment.id, first=first, last=last, selectors=chosen
            )
        )
    return found


def miniature(data: ChartData) -> Miniature | None:
    """None where there is nothing to draw."""
    if data.is_empty:
        return None
    if data.heat_map is not None:
        return _cohorts(data, data.heat_map)
    if data.variants:
        return _variants(data)
    drawn = [(one.title, words.number_of(one.total, one.unit)) for one in data.drawn]
    total = sum(value or 0 for _, value in drawn)
    return Miniature(f"{total:,.0f}", "active now", ranks=ranks(drawn, lambda value: f"{value:,.0f}"))


def _cohorts(data: ChartData, found: HeatMap) -> Miniature:
    rows = found.rows[-_ROWS:]
    columns = min(len(found.columns), _COLUMNS)
    largest = max((cell.value or 0 for row in rows for cell in row.cells[:columns]), default=0) or 1
    width, height = 100 / max(columns, 1), 100 / max(len(rows), 1)
    tiles = tuple(
        Tile(
            round(place * width, 2),
            round(number * height, 2),
            round(width * 0.94, 2),
            round(height * 0.9, 2),
            round(0.08 + 0.92 * max(0.0, cell.share if cell.share is not None else (cell.value or 0) / largest), 3),
        )
        for number, row in enumerate(rows)
        for place, cell in enumerate(row.cells[:columns])
        if cell.value is not None
    )
    return Miniature(*_first_period(data, found), tiles=tiles)


def _first_period(data: ChartData, found: HeatMap) -> tuple[str, str]:
    """The share of all cohorts that was kept for one more period; where the map has money, what a customer has paid
    within the first 30 days."""
    shares = [one.share for one in found.total.cells if one.share is not None]
    if len(shares) > 1:
        return texts.percent(shares[1]), "kept for a second period"
    place = LIFETIMES.index(30)
    cells = found.total.cells
    if len(cells) <= place or cells[place].value is None:
        return "", ""
    return words.full(cells[place].value, found.unit, data.currency), "per customer within 30 days"


def _variants(data: ChartData) -> Miniature:
    conversions = [one.conversion_to_paying for one in data.variants]
    drawn, _ = intervals([(one.low, one.value, one.high) for one in conversions])
    better = [one for one in data.variants if one.probability_better is not None]
    if not better:
        return Miniature("", "", estimates=tuple(drawn))
    best = max(better, key=lambda one: one.probability_better or 0)
    note = f"that {best.variant} converts better"
    return Miniature(texts.percent(best.probability_better or 0), note, estimates=tuple(drawn))
