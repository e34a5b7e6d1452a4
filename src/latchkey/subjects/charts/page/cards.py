"""Charts as small cards: the number, its change, and a small picture. For the list of charts and the overview."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from latchkey.dashboard import texts
from latchkey.dashboard.drawing.ranks import Interval, Rank, intervals, ranks
from latchkey.dashboard.drawing.series import Spark, spark
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.purchase import USD
from latchkey.subjects.charts.page.presentation import Headline, change, full, headline, main_series, number_of
from latchkey.subjects.charts.page.view import Offered, ViewEnvironment
from latchkey.subjects.charts.rules.chart import ChartData, ChartRequest, HeatMap, Series, Value
from latchkey.subjects.charts.rules.definition import BY_NAME, CHARTS, Definition
from latchkey.subjects.charts.rules.facts import LIFETIMES, Resolution, date_of

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
# Charts whose card is a line over these days.
LINES = tuple(definition.name for definition in CHARTS if definition.has_series and not definition.is_snapshot)
# So many months of cohorts are read.
_MONTHS = 6
# Cohorts and columns of a small heat map.
_ROWS, _COLUMNS = 5, 7


def requests(names: Sequence[str], environment: ViewEnvironment, days: int, currency: str = USD) -> list[ChartRequest]:
    """The last days, today among them, compared with as many before. A year is shown by week."""
    last = date_of(environment.now // DAY)
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


def other_requests(environment: ViewEnvironment, offered: Offered) -> list[ChartRequest]:
    """Of charts that are no line: the cohorts of the last months, how subscriptions stand now, and the first experiment
    of the list."""
    last = date_of(environment.now // DAY)
    month = last.year * 12 + last.month - _MONTHS
    chosen: dict[str, dict[str, str]] = {
        name: {} for name in ("subscription_retention", "cohort_explorer", "subscription_status")
    }
    if offered.experiments:
        chosen["experiment_results"] = {"experiment": offered.experiments[0].id}
    return [
        ChartRequest(
            name=name,
            environment=environment.id,
            first=date(month // 12, month % 12 + 1, 1),
            last=last,
            resolution=Resolution.MONTH,
            selectors=selectors,
        )
        for name, selectors in chosen.items()
    ]


@dataclass(frozen=True, slots=True)
class Card:
    definition: Definition
    headline: Headline | None = None
    # What the number is of, if not of all days together.
    per: str = ""
    spark: Spark | None = None
    # Of charts that are no line. Tiles of a heat map: x, y, width and height in percent of the picture, and 0 to 1.
    tiles: tuple[tuple[float, ...], ...] = ()
    ranks: tuple[Rank, ...] = ()
    estimates: tuple[Interval | None, ...] = ()
    # The number of such a card, and what it is; both may be empty.
    value: str = ""
    note: str = ""
    # The first sentence of the definition, if there is nothing to draw.
    about: str = ""


def card(definition: Definition, data: ChartData | None) -> Card:
    main = main_series(data) if data else None
    if data is not None and main is not None and definition.name in LINES:
        values = [number_of(value, main.unit) for value in main.values]
        running = sum(not one.complete for one in data.periods[-2:])
        per = "a week on average" if _is_by_week(data) else ""
        return Card(definition, _headline(data, main), per, spark(values, running=running))
    if data is None or data.is_empty:
        return Card(definition, about=definition.words.partition(". ")[0].rstrip(".") + ".")
    if data.heat_map is not None:
        value, note = _first_period(data, data.heat_map)
        return Card(definition, tiles=_tiles(data.heat_map), value=value, note=note)
    if data.variants:
        conversions = [variant.conversion_to_paying for variant in data.variants]
        drawn, _ = intervals([(estimate.low, estimate.value, estimate.high) for estimate in conversions])
        odds = {
            variant.variant: variant.probability_better
            for variant in data.variants
            if variant.probability_better is not None
        }
        best = max(odds, key=lambda variant: odds[variant], default=None)
        value, note = ("", "") if best is None else (texts.percent(odds[best]), f"that {best} converts better")
        return Card(definition, estimates=tuple(drawn), value=value, note=note)
    drawn_now = [(series.title, number_of(series.total, series.unit)) for series in data.drawn]
    total = sum(value or 0 for _, value in drawn_now)
    bars = ranks(drawn_now, lambda value: f"{value:,.0f}")
    return Card(definition, ranks=bars, value=f"{total:,.0f}", note="active now")


def cards(found: Mapping[str, ChartData]) -> list[tuple[str, list[Card]]]:
    """All charts under their headings."""
    return [(title, [card(BY_NAME[name], found.get(name)) for name in names]) for title, names in SECTIONS.items()]


def _tiles(found: HeatMap) -> tuple[tuple[float, ...], ...]:
    rows, columns = found.rows[-_ROWS:], min(len(found.columns), _COLUMNS)
    largest = max((cell.value or 0 for row in rows for cell in row.cells[:columns]), default=0) or 1
    width, height = 100 / max(columns, 1), 100 / max(len(rows), 1)
    tiles = []
    for number, row in enumerate(rows):
        for place, cell in enumerate(row.cells[:columns]):
            if cell.value is not None:
                share = cell.share if cell.share is not None else cell.value / largest
                strength = round(0.08 + 0.92 * max(0.0, share), 3)
                place_and_size = place * width, number * height, width * 0.94, height * 0.9
                tiles.append((*(round(length, 2) for length in place_and_size), strength))
    return tuple(tiles)


def _first_period(data: ChartData, found: HeatMap) -> tuple[str, str]:
    """The share of all cohorts that was kept for one more period; where the map has money, what a customer has paid
    within the first 30 days."""
    shares = [one.share for one in found.total.cells if one.share is not None]
    if len(shares) > 1:
        return texts.percent(shares[1]), "kept for a second period"
    place, cells = LIFETIMES.index(30), found.total.cells
    if len(cells) <= place or cells[place].value is None:
        return "", ""
    return full(cells[place].value, found.unit, data.currency), "per customer within 30 days"


def _headline(data: ChartData, main: Series) -> Headline:
    earlier = data.previous.series if data.previous else ()
    match data.definition.name:
        case "trial_conversion_rate":
            return _changed(data, main, _decided(data.series), _decided(earlier))
        case "churn" if _is_by_week(data):
            before = next((_average(series.values) for series in earlier if series.id == main.id), None)
            return _changed(data, main, _average(main.values), before, falling_is_good=True)
        case _:
            return headline(data, main)


def _is_by_week(data: ChartData) -> bool:
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
