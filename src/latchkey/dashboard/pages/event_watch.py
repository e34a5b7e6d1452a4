"""The filter of a live page, and how long it may stay open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from latchkey.dashboard.page import Visit
from latchkey.storage.database import Database
from latchkey.usecases.access import sessions
from latchkey.usecases.events import listing as event_list
from latchkey.usecases.events.listing import Filter, Listed
from latchkey.usecases.events.tail import Tails


@dataclass(slots=True)
class Wanted:
    chosen: Filter
    clock_id: str | None = None
    # The key of the watched customer. Looked up again from time to time: a merge changes it.
    owner: int | None = None

    def __call__(self, event: Listed) -> bool:
        chosen = self.chosen
        return (
            (chosen.type is None or event.type == chosen.type)
            and (chosen.environment is None or event.environment == chosen.environment)
            and (chosen.customer_id is None or (event.owner is not None and event.owner == self.owner))
            and (self.clock_id is None or event.test_clock_id == self.clock_id)
        )

    async def look_up(self, database: Database, project_id: str) -> None:
        if self.chosen.customer_id is not None:
            self.owner = await event_list.customer_key(database, project_id, self.chosen.customer_id)


def tails_of(visit: Visit) -> Tails:
    """Shared by all pages of this process."""
    state = visit.request.app.state
    if not hasattr(state, "tails"):
        state.tails = Tails(visit.database)
    tails: Tails = state.tails
    return tails


def lasting(visit: Visit, wanted: Wanted) -> Callable[[], Awaitable[bool]]:
    """Whether the user who opened the page is still signed in and a member of the project."""
    session, project_id = visit.session, visit.project_id
    assert session is not None, "the guard lets nobody in here who is not signed in"

    async def lasts() -> bool:
        await wanted.look_up(visit.database, project_id)
        return await sessions.role_in(visit.database, session.token, project_id, visit.services.now()) is not None

    return lasts
