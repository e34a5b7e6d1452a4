from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.customers.enrollment import Variant
from latchkey.domain.instants import Ms


@dataclass(frozen=True, slots=True)
class Experiment:
    id: str
    name: str
    variants: tuple[Variant, ...]
    created_at: Ms
