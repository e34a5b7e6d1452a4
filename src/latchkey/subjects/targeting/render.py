"""Targeting rules as V2 shows them."""

from latchkey.domain.catalog import TargetingRule
from latchkey.subjects.targeting import wire
from latchkey.wire.attributes import from_attributes


def rule(project_id: str, one: TargetingRule) -> wire.TargetingRule:
    return from_attributes(wire.TargetingRule, one, project_id=project_id)
