"""The limit on requests with a public key: by app and address, and for each user from that address.

All phones of an app share its public key, so the key itself has no limit. The user's own count includes the address:
otherwise anybody who knows a user's id could use up that user's requests. Counts are kept in each process. Receipts are
not counted here.
"""

from __future__ import annotations

from latchkey.domain.instants import MINUTE, Ms
from latchkey.usecases.engine.recent_counts import RecentCounts


class PhoneLimit:
    def __init__(self, per_address: int) -> None:
        # 0 means no limit.
        self._per_address = per_address
        self._counts = RecentCounts()

    def wait_ms(self, app_id: str, per_user: int, app_user_id: str | None, address: str, now: Ms) -> Ms | None:
        """Counts a request. None: it is admitted; otherwise the time until the next minute begins."""
        count = self._counts.count
        over = self._per_address and count((app_id, address), now) > self._per_address
        if not over and app_user_id is not None:
            over = count((app_id, address, app_user_id), now) > per_user
        return MINUTE - now % MINUTE if over else None
