"""Leases of a key's rate limit: requests that one process may count by itself, for at most half a second.

A lease was counted in the database before its requests come, in the run of requests that it names. So a request that a
lease covers is admitted without asking. The SQL function `take_requests` grants leases and takes them back. Instants
are in seconds of the process's own clock, which only goes forward.
"""

from typing import NamedTuple

# A key with fewer requests in half a second gets no lease: it would save little.
FEWEST = 10
# Up to this many requests a minute every request is counted exactly, so there are no leases.
LARGEST_EXACT_LIMIT = 600
# The next request after the end of a lease usually hands it back. After this many seconds the process does so without a
# request. The database waits longer before it refuses a request because of a lease (`patience_us`).
LATEST = 0.05


# Named tuples, because one is made for every batch of requests.
class Lease(NamedTuple):
    # The run that its requests are counted in, as the database names it.
    run: int
    size: int
    left: int
    ends: float
    # The requests of the last 60 seconds when it was granted, without those of the lease.
    used_before: int

    @property
    def used(self) -> int:
        """The requests of the last 60 seconds, with those that came since."""
        return self.used_before + self.size - self.left


class LeaseState(NamedTuple):
    """What a process knows about the limit of one key."""

    lease: Lease | None = None
    # A statement that asks for a lease is under way.
    asking: bool = False
    # The current half second, its requests, and those of the half second before.
    half: int = 0
    current: int = 0
    before: int = 0


class LeaseCount(NamedTuple):
    """What the database is told to count for one key."""

    # 0: a lease covers the requests.
    wanted: int
    # How many requests are expected in half a second. 0: no lease is wanted.
    ahead: int = 0
    # A lease to hand back: its unused rest, its size and its run.
    back: int = 0
    settled: int = 0
    run: int | None = None

    @property
    def without_leases(self) -> bool:
        return self.wanted > 0 and not self.ahead and not self.settled


def plan(standing: LeaseState, amount: int, at: float) -> tuple[LeaseState, LeaseCount]:
    """How to count these requests. Those that a lease covers are counted by this."""
    lease, asking, half, current, before = standing
    this = int(at * 2)
    if this == half:
        current += amount
    else:
        half, current, before = this, amount, current if this == half + 1 else 0
    if lease is None:
        ahead = 0 if asking else expected(max(current, before))
        return LeaseState(None, asking or ahead > 0, half, current, before), LeaseCount(amount, ahead)
    run, size, left, ends, used_before = lease
    if amount <= left and at < ends:
        rest = Lease(run, size, left - amount, ends, used_before)
        return LeaseState(rest, asking, half, current, before), LeaseCount(0, run=run)
    ahead = 0 if asking else expected(max(current, before))
    return LeaseState(None, asking or ahead > 0, half, current, before), LeaseCount(amount, ahead, left, size, run)


def expected(seen: int) -> int:
    """How many requests to expect in half a second, and a quarter more; 0 if there are too few for a lease."""
    return seen + seen // 4 if seen >= FEWEST else 0


def answered(standing: LeaseState, count: LeaseCount) -> LeaseState:
    """After the database has answered, or could not."""
    return standing._replace(asking=False) if count.ahead else standing


def granted(standing: LeaseState, run: int, size: int, lasts_us: int, used: int, sent: float) -> LeaseState:
    """A lease. `sent` is an instant before the statement was sent, so it never ends later than the database thinks."""
    return standing._replace(lease=Lease(run, size, size, sent + lasts_us / 1_000_000, used))


def undone(standing: LeaseState, count: LeaseCount, amount: int) -> LeaseState:
    """Requests that a lease covered were not admitted after all."""
    lease = standing.lease
    if count.wanted or lease is None or lease.run != count.run:
        return standing
    return standing._replace(lease=lease._replace(left=lease.left + amount))
