"""A row that an import left out."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Skip:
    file: str
    line: int
    reason: str
