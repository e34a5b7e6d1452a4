"""Customers: lists by filter, saved segments, the search, and any list as CSV."""

from typing import Any

from starlette.responses import Response, StreamingResponse

from latchkey.dashboard.customer_filter import SORTS, STATUSES, Chosen, read_chosen, unknown
from latchkey.dashboard.links import address, first_purchase
from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.promotion import STORE
from latchkey.domain.refusal import Invalid
from latchkey.engine.reads import CustomerView
from latchkey.subjects.catalog.usecases.product_catalog import list_products
from latchkey.subjects.catalog.usecases.version import load_catalog
from latchkey.subjects.money.usecases import TITLES
from latchkey.subjects.search.usecases import newest, search
from latchkey.subjects.segments.rules.facets import ListEntry, facets_of
from latchkey.subjects.segments.rules.filter import NAMES, Sort
from latchkey.subjects.segments.usecases import customer_lists

pages = Pages()

ON_A_PAGE = 50
# The most products in the list of suggestions.
SUGGESTED = 500
# Parameters of the page, besides those of a list.
_OWN = ("q", "all", "after", "before")


@pages.get("/customers")
async def show_customers(visit: Visit) -> Response:
    text = visit.query.raw("q")
    if text.strip():
        return await _found(visit, text)
    # The form of a segment has the filter in it.
    chosen = await read_chosen(visit, visit.form if visit.refusal else visit.query)
    if chosen.filter.is_empty and chosen.sort is Sort.KEY:
        return await _newest(visit, chosen)
    after = visit.query.text("after") or None
    listing = await visit.run(
        customer_lists.list_page,
        chosen.filter,
        visit.now,
        sort=chosen.sort,
        after=after,
        limit=ON_A_PAGE,
        whole=customer_lists.needs_customer(chosen.columns),
    )
    if after is None and listing.next is None:
        # A short list counts itself. Counting anew would go through all customers where no index fits.
        counted = customer_lists.CustomerCount(len(listing.entries))
    else:
        counted = await visit.run(customer_lists.count, chosen.filter, visit.now, within_ms=customer_lists.ON_A_PAGE_MS)
    return await _page(
        visit,
        chosen,
        listing.entries,
        more=visit.path("customers", **chosen.query, after=listing.next) if listing.next else None,
        counted=counted,
        missing=listing.missing,
        is_first=after is None,
    )


@pages.get("/customers.csv")
async def download(visit: Visit) -> Response:
    """The whole list, not only a page of it. Its name and a header say if customers are missing."""
    if strange := unknown(visit.query):
        raise Invalid(f"A list has no parameter {strange[0][:50]!r}.", param=strange[0][:50])
    chosen = await read_chosen(visit, visit.query)
    missing = await visit.run(customer_lists.missing_customers, visit.now)
    pieces = customer_lists.csv_pieces(
        visit.database, visit.services.catalogs, visit.project_id, chosen.filter, chosen.columns, visit.now
    )
    headers = {
        "content-disposition": f'attachment; filename="customers{"-incomplete" if missing else ""}.csv"',
        "cache-control": "no-store",
        "latchkey-missing-customers": str(missing),
    }
    return StreamingResponse(pieces, media_type="text/csv; charset=utf-8", headers=headers)


@pages.post("/segments", Needs.GRANT, "segment.saved", show_customers)
async def save(visit: Visit) -> Response:
    chosen = await read_chosen(visit, visit.form)
    visit.audit(visit.form.text("name"), filter=chosen.query)
    saved = await visit.run(
        customer_lists.save_segment, visit.form.needed("name"), chosen.filter, chosen.columns, chosen.sort, visit.now
    )
    return await visit.to(visit.path("customers", segment=saved.id), f"The segment {saved.name!r} is saved.")


@pages.confirmed("/segments/{segment_id}/delete", Needs.GRANT, "segment.deleted")
async def delete(visit: Visit, segment_id: str) -> Response:
    await visit.run(customer_lists.delete_segment, segment_id)
    return await visit.to(visit.path("customers"), "The segment is deleted. Its customers are not affected.")


async def _found(visit: Visit, text: str) -> Response:
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
        view = found.matches[0].view
        return await visit.to(address(visit, view.customer.app_user_id, q=text if found.whole else None))
    return await _page(visit, Chosen(), [_entry(match.view) for match in found.matches], text=text, found=found)


async def _newest(visit: Visit, chosen: Chosen) -> Response:
    """Straight from the customers: somebody who was created a moment ago is there."""
    before = visit.query.number("before", 0, high=2**63 - 1)
    listing = await newest(
        visit.database, visit.services.catalogs, visit.project_id, visit.now, before=before or None, limit=ON_A_PAGE
    )
    more = visit.path("customers", **chosen.query, before=listing.before) if listing.before else None
    purchase = "" if listing.views else await first_purchase(visit)
    entries = [_entry(view) for view in listing.views]
    return await _page(visit, chosen, entries, more=more, is_first=not before, purchase=purchase)


# What only some of the lists have.
_ABSENT: dict[str, Any] = {
    "text": "", "found": None, "more": None, "counted": None, "missing": 0, "is_first": False, "purchase": "",
}  # fmt: skip


async def _page(visit: Visit, chosen: Chosen, entries: list[ListEntry], **present: Any) -> Response:
    catalog = await load_catalog(visit.services.changes, visit.project_id)
    products = await visit.run(list_products, limit=SUGGESTED)
    return visit.page(
        "customers.html",
        chosen=chosen,
        given={name: chosen.query.get(name, "") for name in NAMES},
        rows=[_row(visit, entry, chosen.columns, catalog) for entry in entries],
        matches=present["found"].matches if "found" in present else [],
        columns=customer_lists.COLUMNS,
        default_columns=customer_lists.DEFAULT,
        statuses=STATUSES,
        sorts=SORTS,
        segments=sorted(await visit.run(customer_lists.list_segments), key=lambda one: one.name.lower()),
        products=[product.id for product in products],
        stores=_stores(chosen),
        most_counted=customer_lists.MOST_COUNTED,
        **{**_ABSENT, **present},
        strange=unknown(visit.query, *_OWN),
    )


def _row(visit: Visit, entry: ListEntry, columns: tuple[str, ...], catalog: Catalog) -> dict[str, object]:
    id = entry.app_user_id or ""
    return {
        "id": id,
        "href": address(visit, id),
        "on_clock": entry.facets.test_clock_id is not None,
        "now": entry.now,
        "cells": [
            (name, customer_lists.COLUMNS[name].kind, customer_lists.COLUMNS[name].value(entry, catalog))
            for name in columns
        ],
    }


def _entry(view: CustomerView) -> ListEntry:
    """A customer that was read itself, as an entry of a list."""
    facets = facets_of(view.customer, view.last_seen.at, view.last_seen.country)
    return ListEntry(view.key, facets, view.now, None, view.customer.app_user_id, view.customer)


def _stores(chosen: Chosen) -> list[tuple[str, str]]:
    """Those that Latchkey knows, and one of the operator's own if the filter names it."""
    named = [(name, title) for name, title in TITLES.items() if name != STORE]
    own = chosen.filter.store
    return [("", "Any"), *named, *([(own, own)] if own is not None and own not in TITLES else [])]
