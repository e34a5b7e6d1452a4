"""The overview of a project and all charts: cards with a number, its change and a small picture; the page of each
chart, and its numbers as CSV."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from latchkey.dashboard import texts
from latchkey.dashboard.drawing.ranks import Interval, Rank, intervals, ranks
from latchkey.dashboard.drawing.series import Spark, spark
from latchkey.dashboard.links import first_purchase
from latchkey.dashboard.page import Needs, Pages, Response, Visit, address
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.purchase import USD
from latchkey.engine import missing_rates
from latchkey.subjects.charts.page import presentation, view
from latchkey.subjects.charts.page.presentation import Presentation
from latchkey.subjects.charts.page.view import CURRENCIES, Offered, ViewEnvironment, environment_of, offered_to
from latchkey.subjects.charts.render import chart_csv, in_units, number_in_csv, written
from latchkey.subjects.charts.rules.chart import ChartData, ChartRequest, HeatMap
from latchkey.subjects.charts.rules.chart_requests import definition_of
from latchkey.subjects.charts.rules.definition import BY_NAME, CHARTS, SECTIONS, Definition, Unit
from latchkey.subjects.charts.rules.facts import LIFETIMES, Resolution, date_of
from latchkey.subjects.charts.rules.figures import CARDS, TITLES, Headline, card_headline, full, is_by_week, main_series
from latchkey.subjects.charts.usecases import read_chart, read_last_days, read_values
from latchkey.subjects.customers.usecases.edits import list_customers
from latchkey.subjects.demo.usecases.project import PROJECT_ID, has_history
from latchkey.subjects.onboarding.usecases import checklist, dismiss
from latchkey.subjects.purchase_intake.usecases.journal import standing_of

pages = Pages()

# The list of charts shows this many days, by day.
DAYS = 28
# Charts whose card is a line over these days.
LINES = tuple(definition.name for definition in CHARTS if definition.has_series and not definition.is_snapshot)
# So many months of cohorts are read, and the one that runs.
_MONTHS = 5
# Cohorts and columns of a small heat map.
_ROWS, _COLUMNS = 5, 7

# Of a new project, by step: what to do, why, and the page for it.
STEPS = (
    ("store", "Connect a store", "The App Store, Google Play or Stripe notify Latchkey of purchases.", ("apps",)),
    ("product", "Create a product", "What you sell, and the entitlement that it grants.", ("catalog", "products")),
    ("test_event", "Send a test event", "To a webhook of your server. You see its reply at once.", ("webhooks",)),
    ("delivery", "See a delivery", "Of a real event, for example of a purchase in the test store.", ("webhooks",)),
)
PERIODS = {"7": "7 days", "28": "28 days", "90": "90 days", "365": "A year"}
# The range of a chart's page that shows the same days.
RANGES = {"7": "7d", "28": "28d", "90": "90d", "365": "12m"}
PICTURES = ("revenue", "mrr_movement")


@pages.get("")
async def show_overview(visit: Visit) -> Response:
    offered, environment, days, currency = await _chosen(visit)
    found = await _last_days(visit, dict.fromkeys((*CARDS, *PICTURES)), environment, int(days), currency)
    anybody = bool(await visit.run(list_customers, limit=1))
    steps_left = await visit.run(checklist) if visit.may("manage") else None
    # Charts open on the same days, environment and currency.
    kept = {
        "environment": "" if environment.id == offered.usual else environment.slug,
        "range": RANGES[days],
        "currency": "" if currency == USD else currency,
    }
    standing = await standing_of(visit.services.stores, visit.project_id)
    return visit.page(
        "overview.html",
        missing_rates=await visit.run(missing_rates.listed, visit.now),
        environment=environment,
        environments=offered.environments,
        # Nothing was bought in production yet.
        instead=environment.id == "SANDBOX" and not visit.query.text("environment"),
        days=days,
        periods=list(PERIODS.items()),
        currency=currency,
        currencies=CURRENCIES,
        cards=[card(found[name].definition, found[name]) for name in CARDS],
        titles=TITLES,
        # Without the period before: the cards compare.
        pictures=[(data, Presentation(data)) for data in (replace(found[name], previous=None) for name in PICTURES)],
        query=address("", (), kept),
        csv=visit.path("figures.csv", environment=environment.slug, days=days, currency=currency),
        anybody=anybody,
        problems=await visit.services.alerts.problems(visit.project_id, standing, visit.now),
        standing=standing,
        purchase="" if anybody else await first_purchase(visit),
        checklist=steps_left,
        first_steps=STEPS if steps_left is not None else (),
        made_up=visit.project_id == PROJECT_ID and await has_history(visit.database, PROJECT_ID),
    )


@pages.post("/first-steps/dismiss", Needs.MANAGE, "onboarding.dismissed")
async def dismiss_first_steps(visit: Visit) -> Response:
    await visit.run(dismiss, visit.now)
    return await visit.to(visit.path(), "The first steps are no longer shown in this project.")


@pages.get("/figures.csv")
async def show_figures(visit: Visit) -> Response:
    """The numbers of the cards by day (a year: by week), as CSV."""
    _, environment, days, currency = await _chosen(visit)
    found = await _last_days(visit, CARDS, environment, int(days), currency)
    columns: list[list[object]] = [["date", *(period.first for period in found[CARDS[0]].periods)]]
    for name in CARDS:
        if (series := main_series(found[name])) is not None:
            title = f"{name}_{currency}" if series.unit is Unit.MONEY else name
            columns.append([title, *(number_in_csv(value, series.unit) for value in series.values)])
    return _csv(f"latchkey-{environment.slug}-{days}-days.csv", written(zip(*columns, strict=True)))


async def _chosen(visit: Visit) -> tuple[Offered, ViewEnvironment, str, str]:
    offered, query = await offered_to(visit), visit.query
    days, currency = query.choice("days", PERIODS, "28"), query.choice("currency", CURRENCIES, USD)
    return offered, environment_of(query, offered), days, currency


async def _last_days(
    visit: Visit, names: Iterable[str], environment: ViewEnvironment, days: int, currency: str
) -> dict[str, ChartData]:
    asked = names, environment.id, days, currency, visit.now
    return await read_last_days(visit.charts, visit.project_id, *asked, compare=True)


def _csv(name: str, text: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=headers)


@pages.get("/charts")
async def show_charts(visit: Visit) -> Response:
    offered = await offered_to(visit)
    environment = environment_of(visit.query, offered)
    found = await _last_days(visit, LINES, environment, DAYS, USD)
    for request in other_requests(environment, offered):
        found[request.name] = await read_chart(visit.charts, visit.project_id, request, visit.now)
    return visit.page(
        "charts.html",
        environment=environment,
        environments=offered.environments,
        asked="" if environment.id == offered.usual else environment.slug,
        groups=[(title, [card(BY_NAME[name], found.get(name)) for name in names]) for title, names in SECTIONS.items()],
    )


@pages.get("/charts/{name}")
async def show_chart(visit: Visit, name: str) -> Response:
    definition = definition_of(name)
    offered = await offered_to(visit)
    asked = view.view_of(definition, visit.query, offered)
    if asked.request.selectors.get("experiment") == "":
        return visit.page("chart_without_experiment.html", definition=definition)
    cache, project_id = visit.charts, visit.project_id
    data = presentation.titled(await read_chart(cache, project_id, asked.request, visit.now))
    values = await read_values(cache, project_id, asked.environment.id, view.shown_filters(asked), visit.now)
    return visit.page(
        "chart_page.html",
        view=asked,
        data=data,
        today=date_of(asked.environment.now // DAY),
        shown=Presentation(data),
        square=presentation.squares_of(data),
        estimates=presentation.estimates_of(data),
        choices=view.choices_of(asked, offered),
        applied=view.applied(asked, offered, values),
        asked=view.summary_line(asked, offered),
        csv=visit.path("charts", definition.name, "table.csv") + view.query_of(asked, offered),
    )


@pages.get("/charts/{name}/table.csv")
async def show_table(visit: Visit, name: str) -> Response:
    """The same numbers as CSV."""
    definition = definition_of(name)
    asked = view.view_of(definition, visit.query, await offered_to(visit))
    data = presentation.titled(await read_chart(visit.charts, visit.project_id, asked.request, visit.now))
    name = f"{definition.name}-{asked.environment.slug}-{asked.request.first}-{asked.request.last}.csv"
    return _csv(name, chart_csv(data))


def other_requests(environment: ViewEnvironment, offered: Offered) -> list[ChartRequest]:
    """Of charts that are no line: the cohorts of the last months, how subscriptions stand now, and the first experiment
    of the list."""
    last = date_of(environment.now // DAY)
    months = ChartRequest(
        name="subscription_retention",
        environment=environment.id,
        first=view.months_back(last, _MONTHS),
        last=last,
        resolution=Resolution.MONTH,
    )
    found = [months, *(replace(months, name=name) for name in ("cohort_explorer", "subscription_status"))]
    if offered.experiments:
        chosen = {"experiment": offered.experiments[0].id}
        found.append(replace(months, name="experiment_results", selectors=chosen))
    return found


class Card(Struct, frozen=True):
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
        values = [in_units(value, main.unit) for value in main.values]
        running = sum(not period.complete for period in data.periods[-2:])
        per = "a week on average" if is_by_week(data) else ""
        return Card(definition, card_headline(data, main), per, spark(values, running=running))
    if data is None or data.is_empty:
        return Card(definition, about=definition.words.partition(". ")[0].rstrip(".") + ".")
    if data.heat_map is not None:
        value, note = _first_period(data, data.heat_map)
        return Card(definition, tiles=_tiles(data.heat_map), value=value, note=note)
    if data.variants:
        conversions = [variant.conversion_to_paying for variant in data.variants]
        drawn, _ = intervals([(estimate.low, estimate.value, estimate.high) for estimate in conversions])
        odds = {one.variant: one.probability_better for one in data.variants if one.probability_better is not None}
        best = max(odds, key=lambda variant: odds[variant], default=None)
        value, note = ("", "") if best is None else (texts.percent(odds[best]), f"that {best} converts better")
        return Card(definition, estimates=tuple(drawn), value=value, note=note)
    drawn_now = [(series.title, in_units(series.total, series.unit)) for series in data.drawn]
    total = sum(value or 0 for _, value in drawn_now)
    bars = ranks(drawn_now, lambda value: f"{value:,.0f}")
    return Card(definition, ranks=bars, value=f"{total:,.0f}", note="active now")


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
    shares = [cell.share for cell in found.total.cells if cell.share is not None]
    if len(shares) > 1:
        return texts.percent(shares[1]), "kept for a second period"
    place, cells = LIFETIMES.index(30), found.total.cells
    if len(cells) <= place or cells[place].value is None:
        return "", ""
    return full(cells[place].value, found.unit, data.currency), "per customer within 30 days"
