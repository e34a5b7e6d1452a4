"""Test clocks."""

from __future__ import annotations

from starlette.responses import Response

from latchkey.dashboard.page import Pages
from latchkey.dashboard.visit import Visit

pages = Pages()


@pages.get("/test-clocks")
async def show(visit: Visit) -> Response:
    return visit.page("coming.html", here="test-clocks", title="Test clocks")
