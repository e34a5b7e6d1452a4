"""Static files: styles, scripts, icon. Their URLs contain a hash, so browsers keep them for ever. The start page."""

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from latchkey.dashboard.page import ROOT, Needs, Pages, Visit, address
from latchkey.dashboard.templates import STATIC

pages = Pages()

TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
FILES = {
    file.name: (file.read_bytes(), TYPES[file.name.rpartition(".")[2]])
    for file in STATIC.iterdir()
    if file.name.rpartition(".")[2] in TYPES
}


@pages.get("/static/{name}", Needs.NOTHING)
async def show_file(_: Visit, name: str) -> Response:
    try:
        body, kind = FILES[name]
    except KeyError:
        raise HTTPException(404, "There is no such file.") from None
    return Response(body, media_type=kind, headers={"cache-control": "public, max-age=31536000, immutable"})


@pages.get("", Needs.ACCOUNT)
async def go_home(visit: Visit) -> Response:
    if not visit.places:
        return visit.page("home.html")
    return RedirectResponse(address(f"{ROOT}/projects", (visit.places[0].project_id,), {}), 303)
