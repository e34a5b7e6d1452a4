"""Scanning all customers of a project, a little at a time, for questions that no index can answer.

A walk has a time limit. It returns how far it came, and the next walk continues there: a page shows a growing number
instead of waiting for a hundred thousand customers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.storage.customers import walk as customer_walk
from latchkey.storage.customers.walk import mention as mention
from latchkey.storage.database import Database

# How long one page may scan. Together with its other work a page stays under its 200 ms.
SECONDS = 0.08
# Customers per step. Other requests are served between two steps, so they wait about 10 ms at most.
AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a walk has come."""

    # The key of the last customer that was examined, and how many were.
    after: int = 0
    passed: int = 0
    # The key of the project's last customer. Keys have gaps, so the share is an estimate.
    last: int = 0
    done: bool = False

    @property
    def share(self) -> float:
        return 1.0 if self.done or not self.last else min(self.after / self.last, 1.0)


async def walk(
    database: Database,
    project_id: str,
    words: Sequence[str],
    look: Callable[[Customer, Ms], None],
    now: Ms,
    place: Progress,
    seconds: float | None = None,
) -> Progress:
    """Calls `look` with every customer whose state contains one of the words, and with the customer's current time."""
    until = time.monotonic() + (SECONDS if seconds is None else seconds)
    async with database.acquire() as connection:
        while True:
            stretch = await customer_walk.next_stretch(connection, project_id, place.after, AT_ONCE)
            if stretch is None:
                return replace(place, done=True)
            for one in await customer_walk.mentioning(connection, project_id, place.after, stretch, words):
                look(one.customer, one.clock_now if one.clock_now is not None else now)
            ended = stretch.customers < AT_ONCE
            place = Progress(stretch.ends_at, place.passed + stretch.customers, stretch.last, ended)
            if ended or time.monotonic() >= until:
                return place
