"""Customers by filter, and saved segments. Beyond the vendor's API."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field

from latchkey.http.authentication import ReadKey, WriteKey
from latchkey.http.errors import Unprocessable
from latchkey.http.models import Body, Name, Paging
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.http.shared_bodies import FilterText, parsed, unprocessable
from latchkey.subjects.customers.wire import Deleted
from latchkey.subjects.segments import render, wire
from latchkey.subjects.segments.rules.filter import NAMES, Sort, single, written
from latchkey.subjects.segments.usecases import customer_lists
from latchkey.wire.errors import V2Error
from latchkey.wire.paging import next_path, project_path
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}", tags=["V2 customers"])
_When = "A date such as 2026-10-01, or days ago such as 30d."
SortedBy = Literal["last_seen", "first_seen", "spent", "key"]
_PARAMETERS = frozenset((*NAMES, "segment_id", "sort", "limit", "starting_after"))


@router.get(
    "/customer_list", responses=shows(wire.CustomerList) | shows(V2Error, 422, "The filter cannot be understood.")
)
async def list_customers_by_filter(
    call: ReadKey,
    paging: Paging,
    status: Annotated[
        FilterText | None, Query(description="One or more of them, separated by commas or repeated: any of these.")
    ] = None,
    product_id: Annotated[FilterText | None, Query(description="Has ever bought this product.")] = None,
    product_active: Annotated[
        FilterText | None, Query(description="`true`, with `product_id`: its time runs now, or does not end.")
    ] = None,
    spent_from: Annotated[FilterText | None, Query(description="US dollars, less refunds.")] = None,
    spent_to: Annotated[FilterText | None, Query(description="US dollars, less refunds.")] = None,
    country: Annotated[
        FilterText | None, Query(description="Two letters, or several with commas: any of these.")
    ] = None,
    store: Annotated[FilterText | None, Query(description="Has ever bought in this store.")] = None,
    environment: Annotated[FilterText | None, Query(description="`production` or `sandbox`.")] = None,
    last_seen_after: Annotated[FilterText | None, Query(description=_When)] = None,
    last_seen_before: Annotated[FilterText | None, Query(description=_When)] = None,
    first_seen_after: Annotated[FilterText | None, Query(description=_When)] = None,
    first_seen_before: Annotated[FilterText | None, Query(description=_When)] = None,
    trial_ends_within: Annotated[FilterText | None, Query(description="Days.")] = None,
    billing_issue: Annotated[
        FilterText | None, Query(description="`true`: a payment failed and the store can still retry it.")
    ] = None,
    segment_id: Annotated[FilterText | None, Query(description="A saved segment, instead of a filter.")] = None,
    sort: Annotated[SortedBy | None, Query(description="The highest first; `key` is the order of creation.")] = None,
) -> Response:
    """The customers that a filter or a saved segment matches. Everything that is given must hold; a parameter that is
    not known, or is given twice, is refused. Lists follow changes within seconds: `complete` is false while customers
    are missing in all lists, and `missing_customers` says how many. `starting_after` comes from `next_page`; it is not
    a customer's id."""
    everything = locals()
    with unprocessable():
        said = single(call.request.query_params.multi_items(), _PARAMETERS)
    # Each has been validated; `status` may have several values, which are one here.
    given = {name: said[name] for name in NAMES if everything[name] is not None}
    if segment_id is not None:
        if given:
            raise Unprocessable("Give a segment_id or a filter, not both.", param="segment_id")
        saved = await call.run(customer_lists.load_segment, segment_id)
        wanted, order = saved.filter, Sort(sort) if sort is not None else saved.sort
        kept = {"segment_id": segment_id}
    else:
        wanted, order = parsed(given), Sort(sort) if sort is not None else Sort.LAST_SEEN
        kept = written(wanted)
    if sort is not None:
        kept["sort"] = sort
    with unprocessable():
        found = await call.run(
            customer_lists.list_page, wanted, call.now(), sort=order, after=paging.after, limit=paging.limit
        )
    path = project_path(call.project_id, "customer_list")
    return reply(
        wire.CustomerList(
            items=[render.entry(entry) for entry in found.entries],
            next_page=next_path(path, paging.limit, found.next, kept) if found.next is not None else None,
            url=path,
            complete=found.missing == 0,
            missing_customers=found.missing,
        )
    )


class NewSegment(Body):
    """A segment with the same name is replaced. `filter` has the query parameters of `customer_list`."""

    name: Name
    filter: Annotated[dict[str, FilterText], Field(min_length=1, max_length=20)]
    columns: Annotated[list[FilterText], Field(max_length=30)] = Field(default_factory=list)
    sort: SortedBy = "last_seen"


@router.creates("/customer_segments", wire.Segment, "segment.saved")
async def save_segment(call: WriteKey, new: NewSegment) -> Response:
    """Save a filter under a name."""
    wanted = parsed(new.filter)
    with unprocessable():
        saved = await call.run(customer_lists.save_segment, new.name, wanted, new.columns, Sort(new.sort), call.now())
    return reply(render.segment(call.project_id, saved), 201)


@router.get("/customer_segments", responses=shows(Page[wire.Segment]))
async def list_segments(call: ReadKey, paging: Paging) -> Response:
    """The project's saved segments, by id."""
    found = await call.run(customer_lists.list_segments, *paging.window)
    return reply(paging.of([render.segment(call.project_id, segment) for segment in found]))


@router.get("/customer_segments/{segment_id}", responses=shows(wire.Segment))
async def read_segment(call: ReadKey, segment_id: str) -> Response:
    """One saved segment."""
    return reply(render.segment(call.project_id, await call.run(customer_lists.load_segment, segment_id)))


@router.deletes("/customer_segments/{segment_id}", Deleted, "segment.deleted")
async def delete_segment(call: WriteKey, segment_id: str) -> Response:
    """Delete a saved segment. Its customers are not affected."""
    await call.run(customer_lists.delete_segment, segment_id)
    return reply(Deleted(object="customer_segment", id=segment_id, deleted_at=call.now()))
