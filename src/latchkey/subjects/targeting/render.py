"""Targeting rules and previews as V2 shows them."""

from latchkey.domain.catalog import TargetingRule
from latchkey.subjects.offerings.rules import ChosenBy
from latchkey.subjects.targeting import wire
from latchkey.subjects.targeting.usecases import OfferingReason, TargetingPreview
from latchkey.wire.attributes import from_attributes


def rule(project_id: str, one: TargetingRule) -> wire.TargetingRule:
    return from_attributes(wire.TargetingRule, one, project_id=project_id)


def preview(project_id: str, one: TargetingPreview) -> wire.TargetingPreview:
    return wire.TargetingPreview(
        project_id=project_id,
        customers=one.customers,
        complete=one.complete,
        rules=[
            wire.RuleCount(
                rule_id=rule.id, name=rule.name, offering_id=rule.offering_id, customers=one.by_rule.get(rule.id, 0)
            )
            for rule in one.rules
        ],
        override=one.chosen_by.get(ChosenBy.OVERRIDE, 0),
        experiment=one.chosen_by.get(ChosenBy.EXPERIMENT, 0),
        current_offering=one.chosen_by.get(ChosenBy.CURRENT_OFFERING, 0),
        none=one.chosen_by.get(None, 0),
    )


def reason(customer_id: str, one: OfferingReason) -> wire.OfferingReason:
    return wire.OfferingReason(
        customer_id=customer_id,
        offering_id=one.offering_id,
        chosen_by=one.chosen_by.value if one.chosen_by is not None else None,
        rule_id=one.rule.id if one.rule is not None else None,
        rules=[
            wire.RuleVerdict(
                rule_id=verdict.rule.id,
                name=verdict.rule.name,
                is_active=verdict.rule.is_active,
                matches=verdict.matches,
                unmet_conditions=list(verdict.unmet),
            )
            for verdict in one.verdicts
        ],
    )
