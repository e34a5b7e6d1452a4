"""Targeting rules: which offering a customer sees. Beyond the vendor's API."""

from typing import Annotated

from pydantic import Field

from latchkey.domain.catalog import TargetingRule
from latchkey.http.authentication import Call, ReadKey, WriteKey
from latchkey.http.models import AnyId, Body, Id, Name, Paging, PathUserId, not_null
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.http.shared_bodies import FilterText, unprocessable
from latchkey.subjects.customers.wire import Deleted
from latchkey.subjects.targeting import usecases, wire
from latchkey.wire.attributes import from_attributes
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}", tags=["V2 offerings"])


def _shown(call: Call, rule: TargetingRule) -> wire.TargetingRule:
    return from_attributes(wire.TargetingRule, rule, project_id=call.project_id)


Position = Annotated[int, Field(ge=1, le=usecases.MOST_RULES)]
Conditions = Annotated[dict[str, FilterText], Field(max_length=20)]


class NewTargetingRule(Body):
    """`conditions` has the query parameters of `customer_list` (without `last_seen_…`), and `platform`,
    `app_version_from`, `app_version_below`, `attribute`, `entitlement` and `no_entitlement`. All must hold."""

    id: Id | None = None
    name: Name
    offering_id: AnyId
    conditions: Conditions = Field(default_factory=dict)
    is_active: bool = True
    position: Position | None = None


class TargetingRuleChanges(Body):
    name: Name = not_null()
    offering_id: AnyId = not_null()
    conditions: Conditions = not_null()
    is_active: bool = not_null()
    position: Position = not_null()


@router.creates("/targeting_rules", wire.TargetingRule, "targeting_rule.created")
async def create_targeting_rule(call: WriteKey, new: NewTargetingRule) -> Response:
    """Create a rule, at the given position or at the end."""
    with unprocessable():
        made = await call.run(usecases.create_rule, **new.model_dump(), now=call.now())
    return reply(_shown(call, made), 201)


@router.get("/targeting_rules", responses=shows(Page[wire.TargetingRule]))
async def list_targeting_rules(call: ReadKey, paging: Paging) -> Response:
    """The project's targeting rules in their order. The first one that matches a customer counts."""
    found = await call.run(usecases.list_rules, *paging.window)
    return reply(paging.of([_shown(call, rule) for rule in found]))


@router.get("/targeting_rules/{rule_id}", responses=shows(wire.TargetingRule))
async def read_targeting_rule(call: ReadKey, rule_id: str) -> Response:
    """One targeting rule."""
    return reply(_shown(call, await call.run(usecases.load_rule, rule_id)))


@router.updates("/targeting_rules/{rule_id}", wire.TargetingRule, "targeting_rule.updated")
async def update_targeting_rule(call: WriteKey, rule_id: str, changes: TargetingRuleChanges) -> Response:
    """Change the given fields, or move the rule to another position. `conditions` are replaced as a whole."""
    with unprocessable():
        changed = await call.run(usecases.update_rule, rule_id, **changes.model_dump(exclude_unset=True))
    return reply(_shown(call, changed))


@router.deletes("/targeting_rules/{rule_id}", Deleted, "targeting_rule.deleted")
async def delete_targeting_rule(call: WriteKey, rule_id: str) -> Response:
    """Delete a rule. Its customers see the offering of the next rule that matches, or the current one."""
    await call.run(usecases.delete_rule, rule_id)
    return reply(Deleted(object="targeting_rule", id=rule_id, deleted_at=call.now()))


@router.get("/targeting_preview", responses=shows(wire.TargetingPreview))
async def preview_targeting(call: ReadKey) -> Response:
    """How many of the customers who were seen last see an offering by which rule."""
    return reply(await usecases.preview(call.changes, call.project_id, call.now()))


@router.get("/customers/{customer_id}/offering_reason", responses=shows(wire.OfferingReason))
async def explain_offering(call: ReadKey, customer_id: PathUserId) -> Response:
    """Which offering a customer sees as the current one, and why: which rules match, and which conditions do not hold.
    An app that does not sell the offering shows the next choice."""
    return reply(await usecases.explain(call.changes, call.project_id, customer_id, call.now()))
