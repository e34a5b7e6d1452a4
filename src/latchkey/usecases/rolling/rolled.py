"""A batch: how large it is, how far it brings a project, and what it left to do. The roller follows the feed of
events, but a new customer need not cause an event: those are counted by their keys."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.instants import MINUTE, SECOND, Ms
from latchkey.storage.customer_lists.found import Count, Counted, Seen


class Rolled(Struct, frozen=True):
    # There is more to do at once.
    more: bool
    # Some customers are not counted yet.
    uncounted: bool

    def plus(self, other: Rolled) -> Rolled:
        return Rolled(self.more or other.more, self.uncounted or other.uncounted)


NOTHING: Final = Rolled(more=False, uncounted=False)


# Events per transaction: enough to be worth the round trips, few enough to take a tenth of a second. Also customers of
# the walk that makes lists.
AT_ONCE = 500


def share(projects: int) -> int:
    """Of each of so many projects."""
    return max(1, AT_ONCE // projects)


def reached(before: int, position: int | None, head: int, events: int, limit: int) -> int:
    """The position after a batch. With fewer events than the limit all of the feed is processed: there may be gaps in
    it, after a restore."""
    if events < limit:
        return max(head, before)
    return before if position is None else position


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
