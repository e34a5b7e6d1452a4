"""How strongly a cell of a heat map is coloured. The cell also shows its number: never colour alone."""

from __future__ import annotations

# Levels of colour above "nothing"; the style sheet has one class for each.
LEVELS = 10


def heat(share: float | None) -> int | None:
    """0 (nothing) to 10 (all); None for a cell without a value."""
    if share is None:
        return None
    return min(max(-(-round(share * 1000) // 100), 0), LEVELS)
