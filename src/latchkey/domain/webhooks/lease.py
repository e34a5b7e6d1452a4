"""How long a worker holds the lease of a claimed delivery."""

from __future__ import annotations

from latchkey.domain.instants import Ms


def lease_ms(timeout_ms: int) -> int:
    """Longer than any attempt, including recording its outcome: until it ends no other worker may send."""
    return timeout_ms + max(2_000, timeout_ms // 4)


def may_begin(lease_until: Ms, timeout_ms: int, now: Ms) -> bool:
    """A delayed worker must not begin an attempt that could outlast its lease."""
    return now + timeout_ms < lease_until
