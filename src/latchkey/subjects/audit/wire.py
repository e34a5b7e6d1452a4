"""The audit log of V2."""

from typing import Any, Literal

from msgspec import Struct


class AuditLog(Struct, frozen=True, kw_only=True):
    """One change, or one attempt at a change."""

    object: Literal["audit_log"] = "audit_log"
    id: str
    project_id: str
    # Such as `product.created`; the part before the point is the target's type.
    action_type: str
    target_type: str
    # Empty if the change has no target of its own.
    target_identifier: str
    actor_type: Literal["user", "system", "api_key"]
    # The id of the collaborator or of the key; for the system, its name.
    actor_identifier: str
    occurred_at: int
    # The actor's name, the outcome, the address it came from, and what was sent.
    additional_data: dict[str, Any]
