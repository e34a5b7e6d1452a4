"""How large a batch is, and how far it brings a project."""

from __future__ import annotations

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
