"""Lists of customers by filter, and segments, as V2 shows them."""

from __future__ import annotations

from typing import Literal

from latchkey.domain.customers.facets import statuses
from latchkey.domain.customers.filter import written
from latchkey.domain.money import MICROS
from latchkey.domain.purchases.purchase import Environment
from latchkey.usecases.customer_lists.listing import Entry
from latchkey.usecases.customer_lists.segments import Segment
from latchkey.wire import customer_lists as wire

_ENVIRONMENTS: dict[Environment, Literal["production", "sandbox"]] = {
    Environment.PRODUCTION: "production",
    Environment.SANDBOX: "sandbox",
}


def entry(one: Entry) -> wire.ListedByFilter:
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
