"""The leases of this process, for all its requests: those that read and those that write.

A batch asks `plan` what to tell the database for each key, and tells `learn` what the database said, or `fail` that it
said nothing. A lease that no request hands back is handed back by a timer.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

import structlog

from latchkey.database.pool import Database
from latchkey.domain import leases
from latchkey.domain.instants import MINUTE, Ms
from latchkey.domain.leases import LARGEST_EXACT_LIMIT, LATEST, Lease, LeaseCount, LeaseState
from latchkey.domain.user_id import MAX_LENGTH
from latchkey.engine.storage import keys
from latchkey.engine.storage.read_rows import Admitted

log = structlog.get_logger()

# Keys that are remembered; beyond that, those without a lease are forgotten.
_MOST = 10_000
MOST_REMEMBERED = 50_000
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def running_clock() -> float:
    """Seconds since some instant, including those that the machine slept, where the system can tell."""
    return time.clock_gettime(_CLOCK)


class Leases:
    def __init__(self, database: Database, *, clock: Callable[[], float] = running_clock) -> None:
        self._database = database
        self.clock = clock
        # By the hash of the key; only secret keys with a limit that allows leases.
        self._standings: dict[bytes, LeaseState] = {}
        self._timers: dict[bytes, asyncio.TimerHandle] = {}
        self._handing_back: set[asyncio.Task[None]] = set()

    def plan(self, key_hash: bytes, amount: int) -> LeaseCount:
        """How to count these requests. With `wanted` 0 they are counted already."""
        standing = self._standings.get(key_hash)
        if standing is None:
            return LeaseCount(amount)
        self._standings[key_hash], count = leases.plan(standing, amount, self.clock())
        return count

    def held(self) -> int:
        """How many leases this process has."""
        return sum(standing.lease is not None for standing in self._standings.values())

    def used(self, key_hash: bytes) -> int:
        """The requests of the last 60 seconds of a key that has a lease."""
        standing = self._standings.get(key_hash)
        return standing.lease.used if standing is not None and standing.lease is not None else 0

    def learn(self, key_hash: bytes, count: LeaseCount, sent: float, counted: Admitted | None) -> None:
        """What the database said about a key, and an instant before it was asked. None: there is no such key."""
        if counted is None or counted.kind != "secret" or counted.rate_limit <= LARGEST_EXACT_LIMIT:
            self._standings.pop(key_hash, None)
            return
        standing = self._standings.get(key_hash)
        if standing is None:
            if len(self._standings) >= _MOST:
                self._standings = {hash: one for hash, one in self._standings.items() if one.lease or one.asking}
            standing = LeaseState(half=int(sent * 2), current=count.wanted)
        standing = leases.answered(standing, count)
        if counted.leased_at is not None and counted.leased_us is not None:
            standing = leases.granted(
                standing, counted.leased_at, counted.leased, counted.leased_us, counted.used or 0, sent
            )
            self._watch(key_hash, sent + counted.leased_us / 1_000_000)
        self._standings[key_hash] = standing

    def fail(self, key_hash: bytes, count: LeaseCount, amount: int) -> None:
        """The database gave no answer, so the requests were not admitted. A lease that the statement should have handed
        back counts as used: nobody knows whether it was."""
        standing = self._standings.get(key_hash)
        if standing is not None:
            self._standings[key_hash] = leases.undone(leases.answered(standing, count), count, amount)

    async def others(self, ms: int) -> None:
        """Wait until other processes have handed back their leases."""
        await asyncio.sleep(ms / 1000)

    async def close(self) -> None:
        """Hand back everything."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for key_hash in list(self._standings):
            self._over(key_hash)
        while self._handing_back:
            await asyncio.wait(self._handing_back)

    def _watch(self, key_hash: bytes, ends: float) -> None:
        before = self._timers.pop(key_hash, None)
        if before is not None:
            before.cancel()
        delay = max(ends - self.clock(), 0) + LATEST
        self._timers[key_hash] = asyncio.get_running_loop().call_later(delay, self._over, key_hash)

    def _over(self, key_hash: bytes) -> None:
        self._timers.pop(key_hash, None)
        standing = self._standings.get(key_hash)
        if standing is None or standing.lease is None:
            return
        self._standings[key_hash] = standing._replace(lease=None)
        task = asyncio.get_running_loop().create_task(self._hand_back(key_hash, standing.lease))
        self._handing_back.add(task)
        task.add_done_callback(self._handing_back.discard)

    async def _hand_back(self, key_hash: bytes, lease: Lease) -> None:
        try:
            await keys.hand_back(self._database.hot, key_hash, lease)
        except Exception as error:
            # Its requests count as used, for a minute.
            log.info("lease not handed back", error=str(error))


class RecentCounts:
    """Limits that need not be exact: counts in the current minute or day, in memory of this process.
    Forgets whoever was not counted for longest, so that it cannot grow without end."""

    def __init__(self, most: int = MOST_REMEMBERED, *, span: Ms = MINUTE) -> None:
        self._most = most
        self._span = span
        # By who, the number of the current span and the count in it.
        self._counts: OrderedDict[Hashable, tuple[Ms, int]] = OrderedDict()

    def count(self, who: Hashable, now: Ms, amount: int = 1) -> int:
        """Counts one more, or so many, and returns the count in this span."""
        this = now // self._span
        span, count = self._counts.pop(who, (0, 0))
        count = count + amount if span == this else amount
        self._counts[who] = this, count
        if len(self._counts) > self._most:
            self._counts.popitem(last=False)
        return count

    def within(self, now: Ms, *limits: tuple[Hashable, int]) -> bool:
        """Counts one more for each of these. False: one of them is over its limit."""
        over = [who for who, limit in limits if self.count(who, now) > limit]
        return not over


class PhoneLimit:
    def __init__(self, per_address: int) -> None:
        # 0 means no limit.
        self._per_address = per_address
        self._counts = RecentCounts()

    def wait_ms(self, app_id: str, per_user: int, app_user_id: str | None, address: str, now: Ms) -> Ms | None:
        """Counts a request. None: it is admitted; otherwise the time until the next minute begins."""
        count = self._counts.count
        over = self._per_address and count((app_id, address), now) > self._per_address
        # What is no id is refused, and must not fill the memory.
        if not over and app_user_id is not None and len(app_user_id) <= MAX_LENGTH:
            over = count((app_id, address, app_user_id), now) > per_user
        return MINUTE - now % MINUTE if over else None
