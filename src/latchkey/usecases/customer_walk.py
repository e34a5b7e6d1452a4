"""Walking through all customers of a project, a little at a time, for what no index can answer.

A walk is told how long it may take. Where that was not enough it says how far it came, and the next one goes on there:
whoever asks sees a number that grows, and nobody waits for a hundred thousand customers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from latchkey.domain.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.storage.customers import decode
from latchkey.storage.database import Database
from latchkey.storage.sql import query

_STRETCH = query("next_stretch_of_customers")
_MENTIONING = query("customers_mentioning")

# How long a page may walk. With what else a page does it stays under the 200 ms that pages are given.
SECONDS = 0.08
# Customers in one stretch. Others are served between two, so this is how long they wait at most: about 10 ms.
AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Place:
    """How far a walk has come."""

    # The key of the last customer it has passed, and how many it has.
    after: int = 0
    passed: int = 0
    # The key of the last customer there was; keys have gaps, so the share is a rough one.
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
    place: Place,
    seconds: float | None = None,
) -> Place:
    """`look` at every customer whose state mentions one of the words, with the time that this customer lives in."""
    until = time.monotonic() + (SECONDS if seconds is None else seconds)
    async with database.acquire() as connection:
        while True:
            stretch = await connection.fetchrow(_STRETCH, project_id, place.after, AT_ONCE)
            assert stretch is not None, "an aggregate always has a row"
            if stretch["ends_at"] is None:
                return replace(place, done=True)
            found = await connection.fetch(_MENTIONING, project_id, place.after, stretch["ends_at"], list(words))
            for row in found:
                look(decode(row["state"]), row["now_ms"] if row["now_ms"] is not None else now)
            ended = stretch["customers"] < AT_ONCE
            place = Place(stretch["ends_at"], place.passed + stretch["customers"], stretch["last"], ended)
            if ended or time.monotonic() >= until:
                return place


def mention(field: str, value: str) -> str:
    """How a stored customer writes this field. Values are ids of ours, so nothing in them needs an escape."""
    return f'"{field}":"{value}"'
