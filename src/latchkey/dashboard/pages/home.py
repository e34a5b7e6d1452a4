"""The start page: redirects to the first project, or tells a user that they have none."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response

from latchkey.dashboard.page import ROOT, Needs, Pages, Visit, address

pages = Pages()


@pages.get("", Needs.ACCOUNT)
async def go_home(visit: Visit) -> Response:
    if not visit.places:
        return visit.page("home.html")
    return RedirectResponse(address(f"{ROOT}/projects", (visit.places[0].project_id,), {}), 303)
