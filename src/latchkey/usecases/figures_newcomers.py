"""Counting new customers, who need not do anything that an event would tell of: by following their ids.

Ids become visible in another order than they were given, so a few seconds pass before one is counted: first the highest
id is noted, then (a moment later, when whoever took a lower one has written it) a transaction id, and when all
transactions before that one have ended, everybody up to the noted id is there. Those not counted yet are few, and are
looked at one by one when figures are read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from latchkey.domain.instants import MINUTE, SECOND, Ms
from latchkey.storage.sql import query

_NEWEST = query("newest_customer")
_XID = query("present_xid")
_COUNT = query("count_newcomers")

AT_ONCE = 20_000
_MOMENT: Ms = 1 * SECOND
# No transaction lives this long. In a database that was restored elsewhere, transaction ids mean nothing.
_PATIENCE: Ms = 10 * MINUTE


@dataclass(frozen=True, slots=True)
class Count:
    """Customers up to `counted` are in the figures; those up to `mark_id` come next."""

    counted: int
    mark_id: int | None
    mark_xid: int | None
    marked_at: Ms | None


async def carry_on(connection: Any, project_id: str, count: Count, oldest_xid: int, now: Ms) -> tuple[Count, bool]:
    """One step further, and whether the next can be taken at once."""
    if count.mark_id is None or count.marked_at is None:
        newest = await connection.fetchval(_NEWEST, project_id) or 0
        return (Count(count.counted, newest, None, now) if newest > count.counted else count), False
    waited = abs(now - count.marked_at)
    if count.mark_xid is None:
        return (replace(count, mark_xid=await connection.fetchval(_XID)) if waited >= _MOMENT else count), False
    if oldest_xid < count.mark_xid and waited < _PATIENCE:
        return count, False
    row = await connection.fetchrow(_COUNT, project_id, count.counted, count.mark_id, AT_ONCE)
    if row["customers"] == AT_ONCE:
        return replace(count, counted=row["last"]), True
    return Count(count.mark_id, None, None, None), False
