"""Test clocks: time that can be moved."""

import secrets
from typing import Annotated

from pydantic import ConfigDict, Field

from latchkey.domain.instants import parse_duration
from latchkey.http.authentication import ReadKey, WriteKey
from latchkey.http.errors import InvalidParameter
from latchkey.http.models import Body, Instant, IsoDuration, Paging, one_of
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.subjects.customers.wire import Deleted
from latchkey.subjects.test_clocks import render, usecases
from latchkey.subjects.test_clocks.wire import TestClock, TestClockAdvanced
from latchkey.wire import v2

router = Router(prefix="/v2/projects/{project_id}/test_clocks", tags=["V2 test clocks"])


class NewClock(Body):
    name: Annotated[str, Field(min_length=1, max_length=100)]
    now_ms: Instant | None = None


class Advance(Body):
    """Either how far, as an ISO 8601 duration, or to which time."""

    model_config = ConfigDict(json_schema_extra=one_of(by="string", to_ms="integer"))

    by: IsoDuration | None = None
    to_ms: Instant | None = None


@router.creates("", TestClock, "test_clock.created")
async def create_test_clock(call: WriteKey, new: NewClock) -> Response:
    """Create a clock that stands still until it is advanced. It starts at the current time unless another is given."""
    now = call.now()
    id = f"clk_{secrets.token_hex(12)}"
    start = new.now_ms if new.now_ms is not None else now
    clock = await call.run(usecases.create_clock, id, new.name, start, now)
    return reply(render.test_clock(call.project_id, clock), 201)


@router.get("", responses=shows(v2.Page[TestClock]))
async def list_test_clocks(call: ReadKey, paging: Paging) -> Response:
    """The project's test clocks, oldest first."""
    clocks = await call.run(usecases.list_clocks, *paging.window)
    return reply(paging.of([render.test_clock(call.project_id, clock) for clock in clocks]))


@router.get("/{test_clock_id}", responses=shows(TestClock))
async def read_test_clock(call: ReadKey, test_clock_id: str) -> Response:
    """The time of a test clock."""
    return reply(render.test_clock(call.project_id, await call.run(usecases.get_clock, test_clock_id)))


@router.acts("/{test_clock_id}/advance", TestClockAdvanced, "test_clock.advanced")
async def advance_test_clock(call: WriteKey, test_clock_id: str, new: Advance) -> Response:
    """Move a clock forward. Returns when everything that fell due on the way, each at its own instant, is committed."""
    if (new.by is None) == (new.to_ms is None):
        raise InvalidParameter("Send either by or to_ms.", param="by")
    by = parse_duration(new.by) if new.by is not None else None
    moved = await usecases.advance(call.changes, call.project_id, test_clock_id, by=by, to=new.to_ms)
    return reply(render.test_clock_advanced(call.project_id, moved))


@router.deletes("/{test_clock_id}", Deleted, "test_clock.deleted")
async def delete_test_clock(call: WriteKey, test_clock_id: str) -> Response:
    """Delete a clock without customers."""
    await call.run(usecases.delete_clock, test_clock_id)
    return reply(Deleted(object="test_clock", id=test_clock_id, deleted_at=call.now()))
