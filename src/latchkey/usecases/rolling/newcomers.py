"""Counting new customers. The roller follows the feed of events, but a new customer need not cause an event. So
customers are counted by their keys (the numbers that the database gives them in order), after the last counted key.

The difficulty: key 7 may become visible before key 6, because the transaction that took key 6 commits later. Whoever
counts up to 7 then misses 6 for ever. So a key is counted in three steps; `Count` remembers where the project is:
1. Note the highest key that is visible (`mark_id`).
2. Some seconds later, every transaction that took a lower key has written it, so it has a transaction id. Note a higher
   transaction id (`mark_xid`).
3. When all transactions before that id have ended, every customer up to `mark_id` is visible. Count them.

Where no older transaction is running, steps 2 and 3 are one. A report counts the few customers after the last counted
key one by one, so none is missing meanwhile.
"""

from __future__ import annotations

from msgspec.structs import replace

from latchkey.domain.instants import MINUTE, SECOND, Ms
from latchkey.storage.rolling.newcomers import Count, Counted, Seen

# Also how often newcomers are counted: more often would only cost more.
MOMENT: Ms = 5 * SECOND
# No transaction runs this long. In a database that was restored elsewhere, old transaction ids mean nothing.
_PATIENCE: Ms = 10 * MINUTE


def next_step(count: Count, seen: Seen, now: Ms) -> tuple[Count, bool]:
    """The first two steps. Returns whether the customers up to `mark_id` can be counted."""
    if count.mark_id is None or count.marked_at is None:
        return _marked(count.counted, seen, now), False
    waited = abs(now - count.marked_at)
    if count.mark_xid is None:
        if waited < MOMENT:
            return count, False
        count = replace(count, mark_xid=seen.xid)
    return count, seen.oldest_xid >= (count.mark_xid or 0) or waited >= _PATIENCE


def after_counting(count: Count, counted: Counted | None, seen: Seen, now: Ms, most: int) -> tuple[Count, bool]:
    """The third step was taken, for at most `most` customers. Returns whether it must be taken again at once."""
    if counted is not None and counted.customers == most:
        return replace(count, counted=counted.last), True
    assert count.mark_id is not None, "without a mark nothing is counted"
    return _marked(count.mark_id, seen, now), False


def _marked(counted: int, seen: Seen, now: Ms) -> Count:
    return Count(counted, seen.newest, None, now) if seen.newest > counted else Count(counted, None, None, None)
