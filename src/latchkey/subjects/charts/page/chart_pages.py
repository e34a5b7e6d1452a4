"""All charts: the list with previews, the page of each, and its numbers as CSV."""

from latchkey.dashboard.page import Pages, Response, Visit
from latchkey.domain.instants import DAY
from latchkey.subjects.charts.page.cards import DAYS, LINES, cards, other_requests, requests
from latchkey.subjects.charts.page.presentation import Presentation, estimates_of, squares_of, titled
from latchkey.subjects.charts.page.view import (
    applied,
    choices_of,
    environment_of,
    offered_to,
    query_of,
    shown_filters,
    summary_line,
    view_of,
)
from latchkey.subjects.charts.render import chart_csv
from latchkey.subjects.charts.rules.chart_requests import definition_of
from latchkey.subjects.charts.rules.facts import date_of
from latchkey.subjects.charts.usecases import read_chart, read_charts, read_values

pages = Pages()


@pages.get("/charts")
async def show_charts(visit: Visit) -> Response:
    offered = await offered_to(visit)
    environment = environment_of(visit.query, offered)
    cache, project_id = visit.services.charts, visit.project_id
    lines = await read_charts(cache, project_id, requests(LINES, environment, DAYS), visit.now)
    others = [await read_chart(cache, project_id, one, visit.now) for one in other_requests(environment, offered)]
    found = {**lines, **{one.definition.name: one for one in others}}
    return visit.page(
        "charts.html",
        environment=environment,
        environments=offered.environments,
        asked="" if environment.id == offered.usual else environment.slug,
        groups=cards(found),
    )


@pages.get("/charts/{name}")
async def show_chart(visit: Visit, name: str) -> Response:
    definition = definition_of(name)
    offered = await offered_to(visit)
    view = view_of(definition, visit.query, offered)
    if view.request.selectors.get("experiment") == "":
        return visit.page("chart_without_experiment.html", definition=definition)
    cache, project_id = visit.services.charts, visit.project_id
    data = titled(await read_chart(cache, project_id, view.request, visit.now))
    values = await read_values(cache, project_id, view.environment.id, shown_filters(view), visit.now)
    return visit.page(
        "chart_page.html",
        view=view,
        data=data,
        today=date_of(view.environment.now // DAY),
        shown=Presentation(data),
        square=squares_of(data),
        estimates=estimates_of(data),
        choices=choices_of(view, offered),
        applied=applied(view, offered, values),
        asked=summary_line(view, offered),
        csv=visit.path("charts", definition.name, "table.csv") + query_of(view, offered),
    )


@pages.get("/charts/{name}/table.csv")
async def show_table(visit: Visit, name: str) -> Response:
    """The same numbers as CSV."""
    definition = definition_of(name)
    view = view_of(definition, visit.query, await offered_to(visit))
    data = titled(await read_chart(visit.services.charts, visit.project_id, view.request, visit.now))
    name = f"{definition.name}-{view.environment.slug}-{view.request.first}-{view.request.last}.csv"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(chart_csv(data), media_type="text/csv; charset=utf-8", headers=headers)
