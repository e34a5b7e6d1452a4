"""What the overview begins with in a new project: the first steps; and in the demo, what is made up."""

import csv
import io
from dataclasses import replace
from typing import Any

from latchkey.dashboard.links import first_purchase
from latchkey.dashboard.page import Needs, Pages, Response, Visit, address
from latchkey.domain.purchases.purchase import USD
from latchkey.engine import missing_rates
from latchkey.subjects.charts.page.cards import card, requests
from latchkey.subjects.charts.page.presentation import Presentation, main_series
from latchkey.subjects.charts.page.view import CURRENCIES, Offered, ViewEnvironment, environment_of, offered_to
from latchkey.subjects.charts.rules.chart import Value
from latchkey.subjects.charts.rules.definition import Unit
from latchkey.subjects.charts.usecases import read_charts
from latchkey.subjects.customers.usecases.edits import list_customers
from latchkey.subjects.demo.usecases.project import PROJECT_ID, has_history
from latchkey.subjects.onboarding.usecases import checklist, dismiss
from latchkey.subjects.purchase_intake.usecases.journal import standing_of
from latchkey.subjects.webhooks.usecases.delivery_log import troubles_of

pages = Pages()

# By step: what to do, why, and the page for it.
STEPS = (
    ("store", "Connect a store", "The App Store, Google Play or Stripe notify Latchkey of purchases.", ("apps",)),
    ("product", "Create a product", "What you sell, and the entitlement that it grants.", ("catalog", "products")),
    ("test_event", "Send a test event", "To a webhook of your server. You see its reply at once.", ("webhooks",)),
    ("delivery", "See a delivery", "Of a real event, for example of a purchase in the test store.", ("webhooks",)),
)


async def welcome(visit: Visit) -> dict[str, Any]:
    """Values for `welcome.html`."""
    left = await visit.run(checklist) if visit.may("manage") else None
    return {
        "checklist": left,
        "first_steps": STEPS if left is not None else (),
        "made_up": visit.project_id == PROJECT_ID and await has_history(visit.database, PROJECT_ID),
    }


@pages.post("/first-steps/dismiss", Needs.MANAGE, "onboarding.dismissed")
async def dismiss_first_steps(visit: Visit) -> Response:
    await visit.run(dismiss, visit.now)
    return await visit.to(visit.path(), "The first steps are no longer shown in this project.")


PERIODS = {str(days): words for days, words in ((7, "7 days"), (28, "28 days"), (90, "90 days"), (365, "A year"))}
# The range of a chart's page that shows the same days.
RANGES = {"7": "7d", "28": "28d", "90": "90d", "365": "12m"}
CARDS = (
    "mrr",
    "arr",
    "actives",
    "trials",
    "revenue",
    "customers_new",
    "customers_paying",
    "churn",
    "trial_conversion_rate",
    "refund_rate",
)
# Short titles for cards.
TITLES = {"mrr": "MRR", "arr": "ARR", "trial_conversion_rate": "Trial conversion"}
PICTURES = ("revenue", "mrr_movement")


@pages.get("")
async def show_overview(visit: Visit) -> Response:
    offered = await offered_to(visit)
    environment = environment_of(visit.query, offered)
    days = visit.query.choice("days", PERIODS, "28")
    currency = visit.query.choice("currency", CURRENCIES, USD)
    names = dict.fromkeys((*CARDS, *PICTURES))
    asked = requests(tuple(names), environment, int(days), currency)
    found = await read_charts(visit.services.charts, visit.project_id, asked, visit.now)
    anybody = bool(await visit.run(list_customers, limit=1))
    return visit.page(
        "overview.html",
        missing_rates=await visit.run(missing_rates.listed, visit.now),
        environment=environment,
        environments=offered.environments,
        instead=_is_instead(visit, environment),
        days=days,
        periods=list(PERIODS.items()),
        currency=currency,
        currencies=CURRENCIES,
        cards=[card(found[name].definition, found[name]) for name in CARDS],
        titles=TITLES,
        # Without the period before: the cards compare.
        pictures=[(data, Presentation(data)) for data in (replace(found[one], previous=None) for one in PICTURES)],
        query=_query(environment, offered, days, currency),
        csv=visit.path("figures.csv", environment=environment.slug, days=days, currency=currency),
        anybody=anybody,
        troubles=await visit.run(troubles_of),
        standing=await standing_of(visit.services.stores, visit.project_id),
        purchase="" if anybody else await first_purchase(visit),
        **await welcome(visit),
    )


@pages.get("/figures.csv")
async def show_table(visit: Visit) -> Response:
    """The numbers of the cards by day (a year: by week), as CSV."""
    offered = await offered_to(visit)
    environment = environment_of(visit.query, offered)
    days = visit.query.choice("days", PERIODS, "28")
    currency = visit.query.choice("currency", CURRENCIES, USD)
    found = await read_charts(
        visit.services.charts, visit.project_id, requests(CARDS, environment, int(days), currency), visit.now
    )
    columns = [(name, one) for name in CARDS if (one := main_series(found[name])) is not None]
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["date", *(f"{name}_{currency}" if one.unit is Unit.MONEY else name for name, one in columns)])
    for place, period in enumerate(found[CARDS[0]].periods):
        rows.writerow([period.first, *(_number(one.values[place], one.unit) for _, one in columns)])
    name = f"latchkey-{environment.slug}-{days}-days.csv"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


def _number(value: Value, unit: Unit) -> object:
    return "" if value is None else value / 1_000_000 if unit is Unit.MONEY else value


def _is_instead(visit: Visit, environment: ViewEnvironment) -> bool:
    """The page shows the sandbox because nothing was bought in production yet."""
    return environment.id == "SANDBOX" and not visit.query.text("environment")


def _query(environment: ViewEnvironment, offered: Offered, days: str, currency: str) -> str:
    """Charts open on the same days, environment and currency."""
    chosen = {
        "environment": "" if environment.id == offered.usual else environment.slug,
        "range": RANGES[days],
        "currency": "" if currency == USD else currency,
    }
    return address("", (), chosen)
