"""The feed of events, for catching up."""

from urllib.parse import quote

from msgspec import Raw, json

from latchkey.http.authentication import ReadKey
from latchkey.http.models import Paging, PathUserId
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.subjects.events.usecases import FeedPage, page_of_events
from latchkey.wire import paging as wire_paging
from latchkey.wire import v2
from latchkey.wire.event import Event

router = Router(prefix="/v2/projects/{project_id}", tags=["V2 events"])


@router.get("/events", responses=shows(v2.Page[Event]))
async def list_events(call: ReadKey, paging: Paging) -> Response:
    """The project's events exactly as delivered, oldest first. `starting_after` is the id of the last one seen."""
    page = await call.run(page_of_events, after=paging.after, limit=paging.limit)
    return _reply(page, f"/v2/projects/{quote(call.project_id, safe='')}/events", paging.limit)


@router.get("/customers/{customer_id}/events", responses=shows(v2.Page[Event]))
async def list_customer_events(call: ReadKey, customer_id: PathUserId, paging: Paging) -> Response:
    """One customer's events exactly as delivered, oldest first."""
    page = await call.run(page_of_events, after=paging.after, limit=paging.limit, app_user_id=customer_id)
    return _reply(page, f"{wire_paging.path_of(call.project_id, customer_id)}/events", paging.limit)


def _reply(page: FeedPage, url: str, limit: int) -> Response:
    next_page = None
    if page.more:
        last: str = json.decode(page.bodies[-1])["id"]
        next_page = wire_paging.next_path(url, limit, last)
    return reply(v2.Page(items=[Raw(body) for body in page.bodies], next_page=next_page, url=url))
