"""Entries of the audit log as V2 shows them."""

import re
from typing import Literal

from latchkey.subjects.audit import wire
from latchkey.subjects.audit.rules import AuditEntry

PREFIX = "audit_"
# As `usecases.access.keys.actor_of` writes it.
_KEY = re.compile(r"API key .* \((key_[0-9a-f]+)\)", re.DOTALL)


def audit_log(project_id: str, one: AuditEntry) -> wire.AuditLog:
    kind, identifier = _actor(one)
    return wire.AuditLog(
        id=f"{PREFIX}{one.position}",
        project_id=project_id,
        action_type=one.action,
        target_type=one.action.partition(".")[0],
        target_identifier=one.subject,
        actor_type=kind,
        actor_identifier=identifier,
        occurred_at=one.at,
        additional_data={"actor": one.actor, "outcome": one.outcome, "address": one.address, **one.detail},
    )


def position_of(id: str) -> int | None:
    """The position in the log of the entry with this id; None if it is not such an id."""
    number = id.removeprefix(PREFIX)
    return int(number) if id.startswith(PREFIX) and number.isascii() and number.isdigit() and len(number) < 19 else None


def _actor(one: AuditEntry) -> tuple[Literal["user", "system", "api_key"], str]:
    if (key := _KEY.fullmatch(one.actor)) is not None and one.account_id is None:
        return "api_key", key[1]
    return ("user", one.account_id) if one.account_id is not None else ("system", one.actor)
