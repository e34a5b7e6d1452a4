"""Limits on receipts that no shared key has to pay for: by address, and by user from that address, in each process.

All phones of an app share one public key, so the key is no measure. The user's own count includes the address, or
anybody who knows a user's id could use up that user's receipts. Whoever is over a limit gets 503: a phone keeps its
purchase and tries again, and what does not stop does not fill the journal. Nor does what nobody has verified: the
journal takes so many bytes of it for each app and address in a day. Beyond that a receipt is still checked, but kept
only if the store vouches for it.
"""

from __future__ import annotations

from latchkey.domain.instants import DAY, Ms
from latchkey.usecases.engine.recent_counts import RecentCounts

# A phone that restores shows every purchase it holds, each on its own.
PER_USER = 120
# Many phones share an address behind a carrier's or an office's gateway.
PER_ADDRESS = 600
# What an entry of the journal takes beside the receipt.
_ROW = 1_000


class ReceiptLimit:
    def __init__(self, unverified_bytes: int, per_user: int = PER_USER, per_address: int = PER_ADDRESS) -> None:
        self._unverified_bytes = unverified_bytes
        self._per_user = per_user
        self._per_address = per_address
        self._counts = RecentCounts()
        self._unverified = RecentCounts(span=DAY)

    def takes(self, project_id: str, app_user_id: str, address: str, now: Ms) -> bool:
        """Count a receipt. False: one of the two limits is used up in this minute."""
        who = (address, project_id, app_user_id)
        return self._counts.within(now, (who, self._per_user), (address, self._per_address))

    def keeps(self, app_id: str, address: str, size: int, now: Ms) -> bool:
        """Count a receipt of this size that nobody has verified. False: it must not be kept."""
        who, amount = (app_id, address), size + _ROW
        if self._unverified.count(who, now, amount) <= self._unverified_bytes:
            return True
        self._unverified.count(who, now, -amount)
        return False

    def verified(self, app_id: str, address: str, size: int, now: Ms) -> None:
        """It counts no longer."""
        self._unverified.count((app_id, address), now, -(size + _ROW))
