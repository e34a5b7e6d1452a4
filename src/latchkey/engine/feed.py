"""The feed of events, oldest first."""

from dataclasses import dataclass

from latchkey.database.pool import Database
from latchkey.domain.refusal import NotFound
from latchkey.engine.storage import event_feed, state


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Event bodies exactly as delivered, and whether there are more."""

    bodies: list[bytes]
    more: bool


async def page_of_events(
    database: Database, project_id: str, *, after: str | None, limit: int, app_user_id: str | None = None
) -> FeedPage:
    """A page of a project's or a customer's events; `after` is the id of the last event seen."""
    async with database.acquire() as connection:
        if app_user_id is None and after is not None:
            # One statement: most pages are read this way.
            page = await event_feed.bodies_after(connection, project_id, after, limit + 1)
            if page is None:
                raise _no_event(after)
            return FeedPage(page[:limit], len(page) > limit)
        position = 0
        if after is not None:
            found = await event_feed.position_of(connection, project_id, after)
            if found is None:
                raise _no_event(after)
            position = found
        if app_user_id is None:
            bodies = await event_feed.bodies(connection, project_id, position, limit + 1)
        else:
            key = await state.key_of(connection, project_id, app_user_id)
            if key is None:
                raise NotFound(f"There is no customer {app_user_id!r}.", param="customer_id")
            bodies = await event_feed.bodies_of_customer(connection, project_id, key, position, limit + 1)
    return FeedPage(bodies[:limit], len(bodies) > limit)


def _no_event(id: str) -> NotFound:
    return NotFound(f"There is no event {id!r} to start after.", param="starting_after")
