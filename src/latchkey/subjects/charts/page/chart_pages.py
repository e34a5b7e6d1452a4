"""All charts: the list with previews, the page of each, and its numbers as CSV."""

from __future__ import annotations

from starlette.responses import Response

from latchkey.dashboard.page import Pages, Visit
from latchkey.subjects.charts.page.cards import DAYS, LINES, grouped, miniature_requests, requests
from latchkey.subjects.charts.page.choices import applied, asked_words, choices_of, offered_to, shown_filters
from latchkey.subjects.charts.page.figures import titled
from latchkey.subjects.charts.page.presentation import shown
from latchkey.subjects.charts.page.result_tables import cohorts, measures, probability
from latchkey.subjects.charts.page.view import environment_of, query_of, today, view_of
from latchkey.subjects.charts.render import chart_csv
from latchkey.subjects.charts.rules.chart_requests import definition_of
from latchkey.subjects.charts.usecases import read_chart, read_together, read_values

pages = Pages()


@pages.get("/charts")
async def show_charts(visit: Visit) -> Response:
    offered = await offered_to(visit)
    environment = environment_of(visit.query, offered)
    books, project_id = visit.services.charts, visit.project_id
    lines = await read_together(books, project_id, requests(LINES, environment, DAYS), visit.now)
    others = [await read_chart(books, project_id, one, visit.now) for one in miniature_requests(environment, offered)]
    found = {**lines, **{one.definition.name: one for one in others}}
    return visit.page(
        "charts.html",
        here="charts",
        environment=environment,
        environments=offered.environments,
        asked="" if environment.id == offered.usual else environment.slug,
        groups=grouped(found),
    )


@pages.get("/charts/{name}")
async def show_chart(visit: Visit) -> Response:
    definition = definition_of(visit.param("name"))
    offered = await offered_to(visit)
    view = view_of(definition, visit.query, offered)
    if view.request.selectors.get("experiment") == "":
        return visit.page("chart_without_experiment.html", here="charts", definition=definition)
    books, project_id = visit.services.charts, visit.project_id
    data = titled(await read_chart(books, project_id, view.request, visit.now))
    values = await read_values(books, project_id, view.environment.id, shown_filters(view), visit.now)
    return visit.page(
        "chart_page.html",
        here="charts",
        view=view,
        data=data,
        with_today=data.previous is not None
        and not definition.is_level
        and view.request.last >= today(view.environment.now),
        shown=shown(data),
        cohorts=cohorts(data),
        measures=measures(data),
        probability=probability,
        choices=choices_of(view, offered),
        applied=applied(view, offered, values),
        asked=asked_words(view, offered),
        csv=visit.path("charts", definition.name, "table.csv") + query_of(view, offered),
    )


@pages.get("/charts/{name}/table.csv")
async def show_table(visit: Visit) -> Response:
    """The same numbers as CSV."""
    definition = definition_of(visit.param("name"))
    view = view_of(definition, visit.query, await offered_to(visit))
    data = titled(await read_chart(visit.services.charts, visit.project_id, view.request, visit.now))
    name = f"{definition.name}-{view.environment.slug}-{view.request.first}-{view.request.last}.csv"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(chart_csv(data), media_type="text/csv; charset=utf-8", headers=headers)
