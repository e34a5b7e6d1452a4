from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.instants import Ms


@dataclass(frozen=True, slots=True)
class Currency:
    code: str
    name: str
    description: str
    created_at: Ms
