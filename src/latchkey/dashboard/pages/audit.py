"""Audit log."""

from __future__ import annotations

from starlette.responses import Response

from latchkey.dashboard.page import Pages
from latchkey.dashboard.visit import Visit

pages = Pages()


@pages.get("/audit")
async def show(visit: Visit) -> Response:
    return visit.page("coming.html", here="audit", title="Audit log")
