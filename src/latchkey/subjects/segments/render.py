"""Lists of customers by filter, and segments, as V2 shows them."""

from collections.abc import Sequence
from typing import Any, Literal

from latchkey.domain.customers.identity import ERASED
from latchkey.domain.money.amounts import MICROS
from latchkey.domain.purchases.purchase import Environment
from latchkey.subjects.bulk_grants.rules import INCOMPLETE, BulkGrant
from latchkey.subjects.segments import wire
from latchkey.subjects.segments.rules.facets import statuses
from latchkey.subjects.segments.rules.filter import written
from latchkey.subjects.segments.rules.list_entry import ListEntry
from latchkey.subjects.segments.usecases.segments import Segment

_ENVIRONMENTS: dict[Environment, Literal["production", "sandbox"]] = {
    Environment.PRODUCTION: "production",
    Environment.SANDBOX: "sandbox",
}


def entry(one: ListEntry) -> wire.ListedByFilter:
    facets = one.facets
    return wire.ListedByFilter(
        id=one.app_user_id or "",
        status=sorted(statuses(facets, one.now)),
        environment=_ENVIRONMENTS[facets.environment],
        first_seen_at=facets.first_seen_at,
        last_seen_at=facets.last_seen_at,
        country=facets.country,
        stores=list(facets.stores),
        products=list(facets.products),
        spent_in_usd=facets.spent_usd / MICROS,
        refunded_in_usd=facets.refunded_usd / MICROS,
        runs_until=facets.runs_until,
        trial_ends_at=facets.trial_until,
    )


def segment(project_id: str, one: Segment) -> wire.Segment:
    return wire.Segment(
        id=one.id,
        project_id=project_id,
        name=one.name,
        filter=written(one.filter),
        columns=list(one.columns),
        sort=one.sort,
        created_at=one.created_at,
        updated_at=one.updated_at,
    )


def bulk_grant(project_id: str, one: BulkGrant) -> wire.BulkGrant:
    return wire.BulkGrant(**_terms(project_id, one))


def bulk_grant_progress(project_id: str, one: BulkGrant, failures: Sequence[tuple[str, str]]) -> wire.BulkGrantProgress:
    return wire.BulkGrantProgress(
        **_terms(project_id, one),
        holders=one.holders,
        unknown_ids=list(one.unknown_ids),
        complete=INCOMPLETE not in one.source,
        granted=one.granted,
        skipped=one.skipped,
        failed=one.failed,
        waiting=one.total - one.handled,
        failures=[
            wire.BulkGrantFailure(customer_id=None if id == ERASED else id, error=error) for id, error in failures
        ],
    )


def _terms(project_id: str, one: BulkGrant) -> dict[str, Any]:
    return {
        "id": one.id,
        "project_id": project_id,
        "state": one.state,
        "entitlement_id": one.terms.entitlement_id,
        "duration": one.terms.duration,
        "expires_at": one.terms.ends_at,
        "skip_holders": one.terms.skip_holders,
        "created_by": one.actor,
        "created_at": one.created_at,
        "started_at": one.started_at,
        "finished_at": one.finished_at,
        "customers": one.total,
    }
