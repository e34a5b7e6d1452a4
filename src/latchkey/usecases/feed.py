"""Everything that happened, oldest first."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.refusal import NotFound
from latchkey.storage.database import Database
from latchkey.storage.sql import query

_OF_PROJECT = query("events_of_project")
_OF_CUSTOMER = query("events_of_customer")
_BY_ID = query("event_by_id")
_CUSTOMER = query("customer_key")


@dataclass(frozen=True, slots=True)
class Page:
    """Event bodies exactly as delivered, and whether there are more."""

    bodies: list[bytes]
    more: bool


async def page_of_events(
    db: Database, project_id: str, *, after: str | None, limit: int, app_user_id: str | None = None
) -> Page:
    """A page of a project's or a customer's events; `after` is the id of the last event seen."""
    async with db.acquire() as connection:
        position = 0
        if after is not None:
            row = await connection.fetchrow(_BY_ID, project_id, after)
            if row is None:
                raise NotFound(f"There is no event {after!r} to start after.", param="starting_after")
            position = row["position"]
        if app_user_id is None:
            rows = await connection.fetch(_OF_PROJECT, project_id, position, limit + 1)
        else:
            key = await connection.fetchval(_CUSTOMER, project_id, app_user_id)
            if key is None:
                raise NotFound(f"There is no customer {app_user_id!r}.", param="customer_id")
            rows = await connection.fetch(_OF_CUSTOMER, project_id, key, position, limit + 1)
    return Page([row["body"] for row in rows[:limit]], len(rows) > limit)
