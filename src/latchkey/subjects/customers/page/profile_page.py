"""One customer: entitlements with reasons, the timeline of purchases, and all events."""

from starlette.responses import Response

from latchkey.dashboard.event_row import KINDS
from latchkey.dashboard.links import address, customer_id, isolated, written_out
from latchkey.dashboard.page import Pages, Visit
from latchkey.domain.customers.identity import ERASED
from latchkey.domain.customers.promotion import DURATIONS
from latchkey.domain.refusal import NotFound
from latchkey.domain.user_id import is_anonymous
from latchkey.subjects.catalog.usecases.entitlement_catalog import list_entitlements
from latchkey.subjects.customers.page.timeline_svg import WORDS, picture
from latchkey.subjects.customers.rules.subscription_timeline import latest, lives
from latchkey.subjects.customers.usecases.profile import load_profile, movements, timeline

pages = Pages()

FIRST_EVENTS, EVENTS = 10, 25
FIRST_MOVEMENTS, MOVEMENTS = 5, 50
# How many purchases are shown, newest first; a game may sell the same coins a thousand times.
BOUGHT, TOLD = 20, 200
# The most entitlements in a select field.
CHOICES = 500


@pages.get("/customers/{customer_id}")
async def show_profile(visit: Visit) -> Response:
    id = customer_id(visit)
    if id.startswith(f"{ERASED}:"):
        raise NotFound("This customer was erased. Their events stay in the feed under a pseudonym.")
    profile = await load_profile(visit.services, visit.project_id, id)
    view, customer = profile.view, profile.view.customer
    id = customer.app_user_id
    told = await timeline(visit.database, visit.project_id, view.key, limit=FIRST_EVENTS)
    moved = await movements(visit.database, visit.project_id, view.key, limit=FIRST_MOVEMENTS)
    life = lives(customer, view.catalog, view.now, profile.past)
    return visit.page(
        "customer.html",
        id=id,
        isolated_id=isolated(id),
        profile=profile,
        customer=customer,
        subscriptions=list(reversed(customer.subscriptions))[:BOUGHT],
        purchases=list(reversed(customer.purchases))[:BOUGHT],
        own_now=view.now,
        anonymous=is_anonymous(id),
        written_out=written_out(id),
        lives=latest(life, TOLD),
        spans=sum(len(one.spans) for one in life),
        picture=picture(life, view.now),
        life_words=WORDS,
        timeline=told,
        kinds=KINDS,
        movements=moved,
        entitlements=await _choices(visit),
        durations=tuple(DURATIONS),
        searched=visit.query.raw("q"),
        to=lambda *below: address(visit, id, *below),
    )


@pages.get("/customers/{customer_id}/events")
async def show_events(visit: Visit) -> Response:
    view = await visit.services.reader.view(visit.project_id, customer_id(visit), visit.now)
    id = view.customer.app_user_id
    before = visit.query.text("before") or None
    told = await timeline(visit.database, visit.project_id, view.key, before=before, limit=EVENTS)
    return visit.page(
        "customer_events.html",
        id=id,
        isolated_id=isolated(id),
        href=address(visit, id),
        timeline=told,
        kinds=KINDS,
        is_first=before is None,
        newest=address(visit, id, "events"),
        older=address(visit, id, "events", before=told.before) if told.before else None,
    )


@pages.get("/customers/{customer_id}/movements")
async def show_movements(visit: Visit) -> Response:
    view = await visit.services.reader.view(visit.project_id, customer_id(visit), visit.now)
    id = view.customer.app_user_id
    query = visit.query
    at = query.number("at", -1, high=2**63 - 1)
    before = (at, query.raw("key"), query.raw("code")) if at >= 0 else None
    found = await movements(visit.database, visit.project_id, view.key, before=before, limit=MOVEMENTS)
    last = found.items[-1] if found.more else None
    return visit.page(
        "customer_movements.html",
        id=id,
        isolated_id=isolated(id),
        href=address(visit, id),
        movements=found.items,
        older=address(visit, id, "movements", at=last.at, key=last.key, code=last.code) if last else None,
    )


async def _choices(visit: Visit) -> list[tuple[str, str]]:
    if not visit.may("grant"):
        return []
    found = await list_entitlements(visit.database, visit.project_id, limit=CHOICES)
    return [(entitlement.id, f"{entitlement.display_name} ({entitlement.id})") for entitlement in found]
