"""Granting an entitlement to many customers: a preview, its start, and how far it is. Beyond the vendor's API."""

from typing import Annotated

from pydantic import Field

from latchkey.http.audited import actor, audited
from latchkey.http.authentication import Call, ReadKey, WriteKey
from latchkey.http.errors import Unprocessable
from latchkey.http.models import AppUserId, Body, GrantLength, Instant, Paging
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.http.shared_bodies import FilterText, parsed, unprocessable
from latchkey.subjects.bulk_grants import usecases
from latchkey.subjects.bulk_grants.rules import GrantTerms
from latchkey.subjects.segments import render as segments_render
from latchkey.subjects.segments import wire as segments_wire
from latchkey.subjects.segments.rules.filter import CustomerFilter
from latchkey.subjects.segments.usecases.customer_lists import load_segment
from latchkey.wire.errors import V2Error
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/bulk_grants", tags=["V2 customers"])

_Id = Annotated[str, Field(min_length=1, max_length=200)]


class NewBulkGrant(Body):
    """Give one of `filter`, `segment_id` and `customer_ids`; and `duration`, `expires_at`, or neither: for ever."""

    entitlement_id: _Id
    duration: GrantLength | None = None
    expires_at: Instant | None = None
    skip_holders: bool = True
    # The query parameters of `customer_list`.
    filter: Annotated[dict[str, FilterText], Field(min_length=1, max_length=20)] | None = None
    segment_id: _Id | None = None
    # Not in the audit log: who is erased must be gone from it.
    customer_ids: Annotated[list[AppUserId], Field(min_length=1, max_length=usecases.MOST_CUSTOMERS)] | None = Field(
        default=None, repr=False
    )


@router.post(
    "",
    responses=shows(segments_wire.BulkGrantProgress, 201) | shows(V2Error, 422, "It cannot be granted."),
    status_code=201,
)
@audited("bulk_grant.prepared")
async def prepare_bulk_grant(call: WriteKey, new: NewBulkGrant) -> Response:
    """Prepare a grant for the customers of a filter, a segment or a list of ids, at most 10,000. Nobody gets anything
    yet: look at the numbers, then start it. A preview that is not started is deleted after a day."""
    if new.duration is not None and new.expires_at is not None:
        raise Unprocessable("Give a duration or expires_at, not both.", param="expires_at")
    wanted = await _wanted(call, new)
    terms = GrantTerms(
        entitlement_id=new.entitlement_id,
        duration=None if new.duration == "lifetime" else new.duration,
        ends_at=new.expires_at,
        skip_holders=new.skip_holders,
    )
    with unprocessable("filter" if new.segment_id is None else "segment_id"):
        made = await usecases.draft(
            call.database, call.services.catalogs, call.project_id, terms, wanted, await actor(call), call.now()
        )
    return reply(segments_render.bulk_grant_progress(made, []), 201)


@router.get("", responses=shows(Page[segments_wire.BulkGrant]))
async def list_bulk_grants(call: ReadKey, paging: Paging) -> Response:
    """The project's bulk grants, by id, previews included. Read one to see how far it is."""
    found = await call.run(usecases.list_grants, *paging.window, False)
    return reply(paging.of([segments_render.bulk_grant(call.project_id, grant) for grant in found]))


@router.get("/{bulk_grant_id}", responses=shows(segments_wire.BulkGrantProgress))
async def read_bulk_grant(call: ReadKey, bulk_grant_id: str) -> Response:
    """One bulk grant: how many customers have got it, were left out or failed, and why."""
    return await _shown(call, bulk_grant_id)


@router.acts("/{bulk_grant_id}/actions/start", segments_wire.BulkGrantProgress, "bulk_grant.started")
async def start_bulk_grant(call: WriteKey, bulk_grant_id: str) -> Response:
    """Start what was prepared. It runs in the background; every customer gets it once. Started already: 409."""
    await call.run(usecases.start, bulk_grant_id, call.now())
    return await _shown(call, bulk_grant_id)


@router.acts("/{bulk_grant_id}/actions/stop", segments_wire.BulkGrantProgress, "bulk_grant.stopped")
async def stop_bulk_grant(call: WriteKey, bulk_grant_id: str) -> Response:
    """Stop a running bulk grant. Customers who got it before keep it."""
    await call.run(usecases.stop, bulk_grant_id, call.now())
    return await _shown(call, bulk_grant_id)


async def _wanted(call: Call, new: NewBulkGrant) -> CustomerFilter | list[str]:
    given = [one for one in (new.filter, new.segment_id, new.customer_ids) if one is not None]
    if len(given) != 1:
        raise Unprocessable("Give one of filter, segment_id and customer_ids.", param="filter")
    if new.segment_id is not None:
        return (await call.run(load_segment, new.segment_id)).filter
    if new.filter is not None:
        return parsed(new.filter)
    return new.customer_ids or []


async def _shown(call: Call, id: str) -> Response:
    return reply(segments_render.bulk_grant_progress(*await call.run(usecases.load_with_failures, id)))
