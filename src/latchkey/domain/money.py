from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Price:
    """Millionths of a currency unit, so that sums never drift."""

    micros: int
    currency: str

    @property
    def amount(self) -> float:
        return self.micros / 1_000_000


FREE = Price(0, "USD")
