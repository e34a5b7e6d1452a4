"""An entry of the audit log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from latchkey.domain.instants import Ms

Outcome = Literal["begun", "done", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    position: int
    project_id: str | None
    at: Ms
    account_id: str | None
    actor: str
    action: str
    subject: str
    outcome: Outcome
    detail: Mapping[str, Any]
    address: str
