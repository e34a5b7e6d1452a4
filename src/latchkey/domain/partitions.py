"""When a new part begins, and when the deliveries of a part are dropped.

A part is a stretch of time. Deliveries and their attempts are stored in a partition for each part, so that old ones are
removed by dropping a table. Events are kept; many parts share a partition of events. Parts are cut by size as well as
by time: a small installation stays with its first part, and pays nothing for the others.
"""

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from latchkey.domain.instants import Ms

# Deliveries that outlive the part they were in: failed ones, those finished lately, those sent again.
KEPT = -1
# Parts 0 to 999 are in the first partition of events, 1000 to 1999 in the next.
PARTS_OF_EVENTS = 1000

_GIB = 1024**3
_DAY_MS = 24 * 3600 * 1000
# Smaller parts are not worth a partition: their deliveries are deleted one by one.
SMALLEST = 1 * _GIB
# A part as large as this is closed after a day.
LARGE = 20 * _GIB
# About 50 million events with their indexes. A lookup by an event's id searches every partition.
LARGEST_OF_EVENTS = 64 * _GIB
# What is kept for 30 days is in parts of a week: each partition costs every statement some microseconds.
_PARTS_KEPT = 4
# Deliveries in a closed part are deleted one by one only if they are a third older than what is kept. They are usually
# dropped with their part before that.
_LEEWAY = 3


class Partition(Struct, frozen=True):
    number: int
    opened_at: Ms


class Sizes(Struct, frozen=True):
    """In bytes, with indexes: the deliveries and attempts of the newest part, and the newest partition of events."""

    deliveries: int
    events: int


def newest(parts: Sequence[Partition]) -> Partition:
    return max(parts, key=lambda one: one.number)


def next_part(current: Partition, sizes: Sizes, now: Ms, kept_ms: int) -> int | None:
    """The number of the part to open now; None if the current one goes on."""
    if sizes.events >= LARGEST_OF_EVENTS:
        return (current.number // PARTS_OF_EVENTS + 1) * PARTS_OF_EVENTS
    # After part 999 comes part 1000, in the next partition of events.
    return current.number + 1 if _is_due(current, sizes, now, kept_ms) else None


def _is_due(current: Partition, sizes: Sizes, now: Ms, kept_ms: int) -> bool:
    age = now - current.opened_at
    if sizes.deliveries >= LARGE and age >= _DAY_MS:
        return True
    return sizes.deliveries >= SMALLEST and age >= max(_DAY_MS, kept_ms // _PARTS_KEPT)


def to_drop(parts: Sequence[Partition], now: Ms, kept_ms: int) -> list[int]:
    """Parts that were closed before what is still kept, oldest first. A part is closed when the next one is opened."""
    ordered = sorted((partition for partition in parts if partition.number != KEPT), key=lambda one: one.number)
    return [one.number for one, after in pairwise(ordered) if after.opened_at < now - kept_ms]


def deleted_before(part: int, parts: Sequence[Partition], now: Ms, kept_ms: int) -> Ms:
    """Deliveries of the part that succeeded before this time are deleted one by one."""
    is_closed = part not in (KEPT, newest(parts).number)
    return now - kept_ms - (kept_ms // _LEEWAY if is_closed else 0)
