"""The team and the audit log as V2 shows them."""

from __future__ import annotations

import re
from typing import Literal

from latchkey.usecases.access.audit import Entry
from latchkey.usecases.access.team import Member
from latchkey.wire import administration as wire

PREFIX = "audit_"
# As `usecases.access.keys.actor_of` writes it.
_KEY = re.compile(r"API key .* \((key_[0-9a-f]+)\)", re.DOTALL)


def audit_log(project_id: str, one: Entry) -> wire.AuditLog:
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


def collaborator(_: str, one: Member) -> wire.Collaborator:
    account = one.account
    return wire.Collaborator(
        id=account.id,
        name=account.name or None,
        email=account.email,
        role=one.role.value,
        accepted_at=one.since if account.has_password or account.openid is not None else None,
        has_mfa=account.has_second_factor,
    )


def _actor(one: Entry) -> tuple[Literal["user", "system", "api_key"], str]:
    if (key := _KEY.fullmatch(one.actor)) is not None and one.account_id is None:
        return "api_key", key[1]
    return ("user", one.account_id) if one.account_id is not None else ("system", one.actor)
