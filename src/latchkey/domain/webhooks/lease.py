"""How long a claimed delivery belongs to its worker."""

from __future__ import annotations

from latchkey.domain.instants import Ms


def lease_ms(timeout_ms: int) -> int:
    """Longer than any attempt takes, recording included: until it runs out nobody else may send."""
    return timeout_ms + max(2_000, timeout_ms // 4)


def may_begin(lease_until: Ms, timeout_ms: int, now: Ms) -> bool:
    """A worker that was held up must not begin what it could not finish while the lease is still its own."""
    return now + timeout_ms < lease_until
