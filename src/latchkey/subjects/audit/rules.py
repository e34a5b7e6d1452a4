"""An entry of the audit log."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from latchkey.domain.instants import Ms

Outcome = Literal["begun", "done", "refused", "failed"]


class AuditEntry(Struct, frozen=True):
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
