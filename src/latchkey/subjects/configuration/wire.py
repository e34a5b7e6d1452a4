"""The configuration of V2, and plans for it."""

from typing import Any, Literal

from msgspec import Struct

Action = Literal["create", "update", "delete"]


class Config(Struct, frozen=True, kw_only=True):
    object: Literal["config"] = "config"
    project_id: str
    # What `plan` and `apply` take. Secrets are left out.
    config: dict[str, dict[str, Any]]


class ConfigField(Struct, frozen=True, kw_only=True):
    name: str
    # Secrets are `(hidden)`.
    before: Any
    after: Any


class ConfigChange(Struct, frozen=True, kw_only=True):
    action: Action
    # Where it is in the file, such as `products.pro_monthly`.
    path: str
    fields: list[ConfigField]


class LeftAlone(Struct, frozen=True, kw_only=True):
    path: str
    # Why it was not deleted, if that was asked for.
    reason: str | None


class AccessChange(Struct, frozen=True, kw_only=True):
    # Customers by entitlement.
    gains: dict[str, int]
    losses: dict[str, int]
    # Below 1, not all customers were counted in time: the numbers are at least these.
    counted_share: float


class ConfigPlan(Struct, frozen=True, kw_only=True):
    object: Literal["config.plan"] = "config.plan"
    project_id: str
    applied: bool
    # For `apply`, which then applies exactly these changes or none.
    fingerprint: str
    changes: list[ConfigChange]
    # What exists and the file does not name.
    left_alone: list[LeftAlone]
    # Null in the response of `apply`.
    access: AccessChange | None
