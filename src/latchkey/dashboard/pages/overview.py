"""The overview: cards, charts by day, and what needs attention."""

from __future__ import annotations

import csv
import io

from starlette.responses import Response

from latchkey.dashboard import texts
from latchkey.dashboard.charts import Chart, Kind, chart
from latchkey.dashboard.page import Pages
from latchkey.dashboard.pages.welcome import welcome
from latchkey.dashboard.snippets import first_purchase
from latchkey.dashboard.visit import Visit
from latchkey.domain.figures import definitions as rules
from latchkey.domain.figures.definitions import Figure, Unit
from latchkey.domain.figures.overview import Card, Overview
from latchkey.domain.purchases.purchase import Environment
from latchkey.usecases.customers.listing import list_customers
from latchkey.usecases.figures import overview as figures
from latchkey.usecases.money import missing_rates
from latchkey.usecases.stores.standing import standing_of
from latchkey.usecases.webhooks.troubles import troubles_of

pages = Pages()

ENVIRONMENTS = [one.lower() for one in Environment]
PERIODS = {str(days): words for days, words in ((7, "7 days"), (28, "28 days"), (90, "90 days"), (365, "A year"))}
CHARTS: tuple[tuple[Figure, Kind], ...] = (
    (rules.MRR, "line"),
    (rules.REVENUE, "bars"),
    (rules.ACTIVE_SUBSCRIPTIONS, "line"),
    (rules.ACTIVE_TRIALS, "line"),
    (rules.NEW_CUSTOMERS, "bars"),
    (rules.EXPIRED, "bars"),
)
# Figures for which a decrease is good.
FALLING_IS_GOOD = {rules.CHURN, rules.REFUND_RATE}
# If the figures are at most this many events behind, the page waits for them.
SHORT_WAY = 2_000


@pages.get("")
async def show_overview(visit: Visit) -> Response:
    overview, instead = await _figures(visit)
    anybody = bool(await list_customers(visit.database, visit.project_id, limit=1))
    return visit.page(
        "overview.html",
        here="overview",
        overview=overview,
        instead=instead,
        cards=[(card, said(card), change(card)) for card in overview.cards],
        charts_drawn=[drawn(overview, figure, kind) for figure, kind in CHARTS],
        periods=list(PERIODS.items()),
        environments=[(one.lower(), one.capitalize()) for one in Environment],
        anybody=anybody,
        troubles=await troubles_of(visit.database, visit.project_id),
        standing=await standing_of(visit.services.stores, visit.project_id),
        missing_rates=await missing_rates.listed(visit.database, visit.project_id, visit.now),
        purchase="" if anybody else await first_purchase(visit),
        **await welcome(visit),
    )


@pages.get("/figures.csv")
async def show_table(visit: Visit) -> Response:
    """The same numbers by day, as CSV."""
    overview, _ = await _figures(visit)
    text = io.StringIO()
    rows = csv.writer(text)
    columns = [(one.figure.name, one.currency, one.values) for one in overview.series]
    columns += [(one.figure.name, line.currency, line.values) for one in overview.series for line in one.others]
    rows.writerow(["date", *(f"{name}_{currency}" if currency else name for name, currency, _ in columns)])
    for place, date in enumerate(overview.dates):
        rows.writerow([date, *(v[place] / 1_000_000 if currency else v[place] for _, currency, v in columns)])
    name = f"latchkey-{overview.environment.lower()}-{overview.days}-days.csv"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


async def _figures(visit: Visit) -> tuple[Overview, bool]:
    """The figures, and whether they are those of the sandbox because production has none yet."""
    days = int(visit.query.choice("days", PERIODS, "28"))
    await figures.catch_up(visit.database, visit.project_id, visit.now, most=SHORT_WAY)
    chosen = visit.query.choice("environment", ENVIRONMENTS, "").upper()
    environment = Environment(chosen) if chosen else Environment.PRODUCTION
    instead = not chosen and await figures.environments(visit.database, visit.project_id) == {Environment.SANDBOX}
    if instead:
        environment = Environment.SANDBOX
    return await figures.overview(visit.database, visit.project_id, environment, days, visit.now), instead


def drawn(overview: Overview, figure: Figure, kind: Kind) -> Chart:
    series = overview.line(figure)
    title = f"{figure.title} ({series.currency})" if series.currency else figure.title
    values = [value / 1_000_000 for value in series.values] if figure.unit is Unit.MONEY else list(series.values)
    return chart(title, figure.definition, overview.dates, values, _short, kind)


def said(card: Card) -> str:
    match card.figure.unit:
        case Unit.MONEY:
            return texts.money(card.value, card.currency)
        case Unit.SHARE:
            return texts.percent(card.value)
        case Unit.COUNT:
            return texts.number(int(card.value or 0))


def change(card: Card) -> tuple[str, str]:
    """The change since the period before, and whether that is good (up), bad (down) or neither."""
    if card.value is None or card.previous is None:
        return ("not known yet" if card.value is None else "no earlier value"), ""
    moved = card.value - card.previous
    if not moved:
        return "no change", ""
    kind = "up" if (moved > 0) != (card.figure in FALLING_IS_GOOD) else "down"
    arrow = "▲" if moved > 0 else "▼"
    if card.figure.unit is Unit.SHARE:
        return f"{arrow} {abs(moved) * 100:.1f} points", kind
    if not card.previous:
        return f"{arrow} from 0", kind
    return f"{arrow} {abs(moved) / abs(card.previous) * 100:,.0f} %", kind


def _short(value: float) -> str:
    """A short form of a value for the axis."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if abs(value) >= 10 * size:
            return f"{value / size:,.0f}{letter}"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
