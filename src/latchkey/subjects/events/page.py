"""Events: the project's events, newest first, one event as delivered, and a stream of new ones."""

from starlette.exceptions import HTTPException

from latchkey.dashboard.event_row import row_of
from latchkey.dashboard.links import first_purchase
from latchkey.dashboard.page import Pages, Response, Visit
from latchkey.dashboard.stream import MEDIA_TYPE, EventQuery, EventStream
from latchkey.domain.events.customer_event import EventType
from latchkey.domain.refusal import NotFound
from latchkey.subjects.events import usecases
from latchkey.subjects.events.rules import EventFilter
from latchkey.subjects.events.usecases import Tails


def tails_of(visit: Visit) -> Tails:
    """Shared by all pages of this process."""
    state = visit.request.app.state
    if not hasattr(state, "tails"):
        state.tails = Tails(visit.database)
    tails: Tails = state.tails
    return tails


pages = Pages()

ON_A_PAGE = 50
ENVIRONMENTS = ("PRODUCTION", "SANDBOX")


@pages.get("/events")
async def show_events(visit: Visit) -> Response:
    before = visit.query.number("before", low=1) if visit.query.text("before") else None
    chosen, error = read_filter(visit), ""
    try:
        page = await visit.run(usecases.page_of_newest, chosen, before=before, limit=ON_A_PAGE)
    except NotFound as refusal:
        page, error = usecases.EventPage([], 0, None), refusal.message
    kept = {"type": chosen.type, "environment": chosen.environment, "customer": chosen.customer_id}
    live = before is None and not error
    return visit.page(
        "events.html",
        404 if error else 200,
        chosen=chosen,
        filtered=any(kept.values()),
        error=error,
        rows=[row_of(visit, event) for event in page.events],
        types=list(EventType),
        newer=visit.path("events", **kept) if before is not None else None,
        older=visit.path("events", **kept, before=page.before) if page.before is not None else None,
        # A short page that is not the last one: so many events were examined.
        examined=usecases.EXAMINED if page.before is not None and len(page.events) < ON_A_PAGE else None,
        stream=visit.path("events", "stream", **kept) if live else None,
        after=page.head,
        purchase="" if page.events or error else await first_purchase(visit),
    )


# Before the page of one event, so that `stream` is not taken for an id.
@pages.get("/events/stream")
async def stream_events(visit: Visit) -> Response:
    """New events of the project, or of one customer or test clock, as they are committed."""
    if MEDIA_TYPE not in visit.request.headers.get("accept", ""):
        raise HTTPException(406, "This is a stream for open pages. The list of events is beside it.")
    tails = tails_of(visit)
    if tails.full:
        raise HTTPException(503, "Too many pages are watching. Try again in a minute.", {"retry-after": "60"})
    exchange = visit.request.scope.get("latchkey.exchange")
    if exchange is not None and exchange.is_head:
        return Response(media_type=MEDIA_TYPE)
    chosen, clock_id = read_filter(visit), visit.query.text("clock") or None
    after = _after(visit)
    try:
        if clock_id:
            page = await visit.run(usecases.newest_of_clock, clock_id)
        else:
            before = after + 1 if after is not None else None
            page = await visit.run(usecases.page_of_newest, chosen, before=before, limit=ON_A_PAGE)
    except NotFound:
        page = usecases.EventPage([], 0, None)
    wanted = EventQuery(chosen, clock_id)
    await wanted.look_up(visit)
    return EventStream(visit, tails, wanted, page.events, after)


@pages.get("/events/{event_id}")
async def show_event(visit: Visit, event_id: str) -> Response:
    shown = await visit.run(usecases.show_event, event_id)
    return visit.page("event.html", shown=shown, row=row_of(visit, shown.event))


def read_filter(visit: Visit) -> EventFilter:
    """The filter of the page; invalid values are ignored."""
    query = visit.query
    return EventFilter(
        type=query.choice("type", EventType, "") or None,
        environment=query.choice("environment", ENVIRONMENTS, "") or None,
        customer_id=query.text("customer") or None,
    )


def _after(visit: Visit) -> int | None:
    """The last event seen: on reconnecting, the browser's header is newer than the page's own value."""
    said = visit.request.headers.get("last-event-id", "")
    if said.isascii() and said.isdigit() and len(said) <= 15:
        return int(said)
    return visit.query.number("after") if visit.query.text("after") else None
