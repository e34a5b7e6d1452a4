"""A limit on what makes a payment provider work, by address, and by user from that address, in each process. A public
key can be used by everybody: without a limit it could use up the provider's quota, or try out stolen cards."""

from __future__ import annotations

from latchkey.domain.instants import Ms
from latchkey.usecases.engine.recent_counts import RecentCounts

# Somebody who changes their mind a few times.
PER_USER = 20
# Many buyers share an address behind a carrier's or an office's gateway.
PER_ADDRESS = 120
# The SDK asks once a second how a payment stands.
STATUS_PER_MINUTE = 90


class CheckoutLimit:
    def __init__(self, per_user: int = PER_USER, per_address: int = PER_ADDRESS) -> None:
        self._per_user = per_user
        self._per_address = per_address
        self._counts = RecentCounts()

    def takes(self, project_id: str, user: str, address: str, now: Ms) -> bool:
        """Count a request of this user, or of this checkout. False: one of the two limits is used up in this minute."""
        by_user = self._counts.count((address, project_id, user), now)
        by_address = self._counts.count(address, now)
        return by_user <= self._per_user and by_address <= self._per_address

    def asks(self, id_hash: bytes, now: Ms) -> bool:
        """Count a question how a checkout stands. False: the provider was asked often enough in this minute."""
        return self._counts.count(id_hash, now) <= STATUS_PER_MINUTE
