"""Customers: the newest, and the search."""

from __future__ import annotations

from starlette.responses import Response

from latchkey.dashboard.customer_address import address
from latchkey.dashboard.page import Pages
from latchkey.dashboard.snippets import first_purchase
from latchkey.dashboard.visit import Visit
from latchkey.domain.access.entitlements import active
from latchkey.domain.customers.attributes import visible
from latchkey.usecases.customers.search import Found, Match, newest, search
from latchkey.usecases.rendering.view import View

pages = Pages()

ON_A_PAGE = 50


@pages.get("/customers")
async def show_customers(visit: Visit) -> Response:
    text = visit.query.raw("q")
    if not text.strip():
        return await _newest(visit)
    everything = visit.query.ticked("all")
    found = await search(
        visit.database,
        visit.services.catalogs,
        visit.project_id,
        text,
        visit.now,
        everything=everything,
        limit=ON_A_PAGE,
    )
    if len(found.matches) == 1 and not found.more and not everything:
        return await visit.to(_of(visit, found.matches[0].view, q=text if found.whole else None))
    return _page(visit, [_row(visit, one.view, one) for one in found.matches], text=text, found=found)


async def _newest(visit: Visit) -> Response:
    before = visit.query.number("before", 0, high=2**63 - 1)
    listing = await newest(
        visit.database,
        visit.services.catalogs,
        visit.project_id,
        visit.now,
        before=before or None,
        limit=ON_A_PAGE,
    )
    more = visit.path("customers", before=listing.before) if listing.before else None
    rows = [_row(visit, view) for view in listing.views]
    purchase = "" if rows else await first_purchase(visit)
    return _page(visit, rows, more=more, is_first=not before, purchase=purchase)


def _page(
    visit: Visit,
    rows: list[dict[str, object]],
    *,
    text: str = "",
    found: Found | None = None,
    more: str | None = None,
    is_first: bool = False,
    purchase: str = "",
) -> Response:
    return visit.page(
        "customers.html",
        here="customers",
        rows=rows,
        text=text,
        found=found,
        more=more,
        is_first=is_first,
        purchase=purchase,
    )


def _row(visit: Visit, view: View, match: Match | None = None) -> dict[str, object]:
    attributes = visible(view.customer)
    return {
        "customer": view.customer,
        "href": _of(visit, view),
        "entitlements": list(active(view.customer, view.catalog, view.now)),
        "email": attributes["$email"].value if "$email" in attributes else None,
        "last_seen": view.last_seen,
        "match": match,
    }


def _of(visit: Visit, view: View, **query: object) -> str:
    return address(visit, view.customer.app_user_id, **query)
