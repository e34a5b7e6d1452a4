"""V2: targeting rules, and who sees what."""

from typing import Literal

from msgspec import Struct

ChosenBy = Literal["override", "experiment", "targeting_rule", "current_offering"]


class TargetingRule(Struct, frozen=True, kw_only=True):
    object: Literal["targeting_rule"] = "targeting_rule"
    id: str
    project_id: str
    name: str
    offering_id: str
    # By name; empty is everybody.
    conditions: dict[str, str]
    is_active: bool
    # From 1. The first rule that matches counts.
    position: int
    # Grows with each change of who sees what.
    revision: int
    created_at: int


class RuleCount(Struct, frozen=True, kw_only=True):
    rule_id: str
    name: str
    offering_id: str
    customers: int


class TargetingPreview(Struct, frozen=True, kw_only=True):
    """The customers who were seen last, at most 1,000, by what chooses their offering."""

    object: Literal["targeting_preview"] = "targeting_preview"
    project_id: str
    customers: int
    # Whether these are all customers of the project.
    complete: bool
    rules: list[RuleCount]
    override: int
    experiment: int
    current_offering: int
    # They see no offering: the project has no current one.
    none: int


class RuleVerdict(Struct, frozen=True, kw_only=True):
    rule_id: str
    name: str
    is_active: bool
    matches: bool
    # In words.
    unmet_conditions: list[str]


class OfferingReason(Struct, frozen=True, kw_only=True):
    """Why a customer sees an offering as the current one, by what its app has said of itself last."""

    object: Literal["offering_reason"] = "offering_reason"
    customer_id: str
    # Null: none.
    offering_id: str | None
    chosen_by: ChosenBy | None
    rule_id: str | None
    # All rules in their order, also those that come after the one that counts.
    rules: list[RuleVerdict]
