"""Counting new customers. The roller follows the feed of events, but a new customer need not cause an event. So
customers are counted by their keys (the numbers that the database gives them in order), after the last counted key.

The difficulty: key 7 may become visible before key 6, because the transaction that took key 6 commits later. Whoever
counts up to 7 then misses 6 for ever. So a key is counted in three steps, a few seconds apart; `Count` remembers where
the project is:
1. Note the highest key that is visible (`mark_id`).
2. A second later, every transaction that took a lower key has written it, so it has a transaction id. Note a higher
   transaction id (`mark_xid`).
3. When all transactions before that id have ended, every customer up to `mark_id` is visible. Count them.

A report counts the few customers after the last counted key one by one, so none is missing meanwhile.
"""

from __future__ import annotations

from dataclasses import replace

from latchkey.domain.instants import MINUTE, SECOND, Ms
from latchkey.storage.database import Connection
from latchkey.storage.figures import newcomers
from latchkey.storage.figures.newcomers import Count

AT_ONCE = 20_000
_MOMENT: Ms = 1 * SECOND
# No transaction runs this long. In a database that was restored elsewhere, old transaction ids mean nothing.
_PATIENCE: Ms = 10 * MINUTE


async def carry_on(
    connection: Connection, project_id: str, count: Count, oldest_xid: int, now: Ms
) -> tuple[Count, bool]:
    """Takes the next step. Returns whether the step after it can be taken at once."""
    if count.mark_id is None or count.marked_at is None:
        newest = await newcomers.newest_customer(connection, project_id)
        return (Count(count.counted, newest, None, now) if newest > count.counted else count), False
    waited = abs(now - count.marked_at)
    if count.mark_xid is None:
        return (replace(count, mark_xid=await newcomers.present_xid(connection)) if waited >= _MOMENT else count), False
    if oldest_xid < count.mark_xid and waited < _PATIENCE:
        return count, False
    counted = await newcomers.count(connection, project_id, count.counted, count.mark_id, AT_ONCE)
    if counted.customers == AT_ONCE and counted.last is not None:
        return replace(count, counted=counted.last), True
    return Count(count.mark_id, None, None, None), False
