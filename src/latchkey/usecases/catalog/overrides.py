"""An offering for one customer, whatever the current offering is. It has no event: nothing that was bought changes."""

from __future__ import annotations

from latchkey.domain.refusal import NotFound
from latchkey.storage import collisions
from latchkey.storage.catalog import offerings as overrides
from latchkey.storage.customers import state
from latchkey.storage.errors import CollisionError
from latchkey.usecases.catalog import offerings
from latchkey.usecases.engine.changes import Change, Changes


async def assign_offering(
    changes: Changes, project_id: str, app_user_id: str, offering_id: str, *, create: bool = False
) -> None:
    """With `create`, an unknown customer is created."""
    offering = await offerings.load_offering(changes.database, project_id, offering_id)
    if create:
        unchanged = Change(
            project_id=project_id, app_user_id=app_user_id, apply=lambda situation: situation.customer, create=True
        )
        await changes.make(unchanged)
    try:
        async with collisions.transaction(changes.database) as connection:
            if not await overrides.override(connection, project_id, app_user_id, offering.id, changes.now()):
                raise _missing(app_user_id)
    except CollisionError:
        # Somebody deleted the offering meanwhile.
        await offerings.load_offering(changes.database, project_id, offering_id)
        raise


async def clear_offering(changes: Changes, project_id: str, app_user_id: str) -> None:
    """The customer sees the current offering again. Idempotent."""
    async with changes.database.transaction() as connection:
        if await state.key_of(connection, project_id, app_user_id) is None:
            raise _missing(app_user_id)
        await overrides.clear_override(connection, project_id, app_user_id)


def _missing(app_user_id: str) -> NotFound:
    return NotFound(f"There is no customer {app_user_id!r} in this project.", param="app_user_id")
