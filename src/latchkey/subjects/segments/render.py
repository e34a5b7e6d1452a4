"""Lists of customers by filter, and segments, as V2 shows them."""

from collections.abc import Sequence
from typing import Any

from latchkey.domain.customers.identity import ERASED
from latchkey.domain.money.amounts import MICROS
from latchkey.subjects.bulk_grants.rules import INCOMPLETE, BulkGrant
from latchkey.subjects.segments import wire
from latchkey.subjects.segments.rules.facets import ListEntry, statuses
from latchkey.subjects.segments.rules.filter import Segment, written
from latchkey.wire.attributes import from_attributes


def entry(one: ListEntry) -> wire.ListedByFilter:
    facets = one.facets
    return from_attributes(
        wire.ListedByFilter,
        facets,
        id=one.app_user_id or "",
        status=sorted(statuses(facets, one.now)),
        environment=facets.environment.lower(),
        spent_in_usd=facets.spent_usd / MICROS,
        refunded_in_usd=facets.refunded_usd / MICROS,
        trial_ends_at=facets.trial_until,
    )


def segment(project_id: str, one: Segment) -> wire.Segment:
    return from_attributes(wire.Segment, one, project_id=project_id, filter=written(one.filter))


def bulk_grant(_project_id: str, one: BulkGrant) -> wire.BulkGrant:
    return from_attributes(wire.BulkGrant, one, **_renamed(one))


def bulk_grant_progress(one: BulkGrant, failures: Sequence[tuple[str, str]]) -> wire.BulkGrantProgress:
    return from_attributes(
        wire.BulkGrantProgress,
        one,
        **_renamed(one),
        complete=INCOMPLETE not in one.source,
        waiting=one.total - one.handled,
        failures=[
            wire.BulkGrantFailure(customer_id=None if id == ERASED else id, error=error) for id, error in failures
        ],
    )


def _renamed(one: BulkGrant) -> dict[str, Any]:
    return {"expires_at": one.ends_at, "created_by": one.actor, "customers": one.total}
