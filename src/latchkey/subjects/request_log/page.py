"""The log of requests with API keys: what came, how it was answered, and how many more there were."""

from latchkey.dashboard.page import Pages, Response, Visit
from latchkey.subjects.api_keys import usecases as api_keys
from latchkey.subjects.request_log import usecases

pages = Pages()

ON_A_PAGE = 50
# The largest possible id.
MOST = 2**63 - 1
CLASSES = {"2": "succeeded (2xx)", "3": "not changed (3xx)", "4": "refused (4xx)", "5": "failed (5xx)"}


@pages.get("/requests")
async def show_requests(visit: Visit) -> Response:
    query = visit.query
    key_id, route = query.text("key")[:100], query.text("route")[:300]
    status = query.chosen("status", CLASSES) or ""
    before = query.number("before", 0, low=0, high=MOST) or None
    found = await visit.run(
        usecases.entries,
        key_id=key_id or None,
        status_class=int(status) if status else None,
        route=route or None,
        before=before,
        limit=ON_A_PAGE + 1,
    )
    kept = {"key": key_id, "status": status, "route": route}
    shown, older = visit.paged(found, ON_A_PAGE, "requests", cursor="before", **kept)
    # The first keys of the project; others are shown by their ids.
    known = await visit.run(api_keys.list_keys, limit=200)
    return visit.page(
        "requests.html",
        # Each process writes its own in batches, so those of one second are in no order.
        entries=sorted(shown, key=lambda one: one.at, reverse=True),
        older=older,
        kept=kept,
        filtered=any(kept.values()) or before is not None,
        classes=CLASSES,
        routes=await visit.run(usecases.routes, usecases.EXAMINED),
        keys=known,
        names={key.id: key.name for key in known},
        examined=usecases.EXAMINED,
    )
