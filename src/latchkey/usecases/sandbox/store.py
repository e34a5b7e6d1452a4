"""Actions in the test store, one at a time, each refused if it is not possible in the current state."""

from __future__ import annotations

from latchkey.domain.stores.test_store.billing import STORE
from latchkey.domain.stores.test_store.orders import Action, perform
from latchkey.usecases.engine.changes import Change, Changes, Committed


async def act(changes: Changes, project_id: str, action: Action) -> Committed:
    """Only a purchase creates a customer that does not exist yet."""
    return await changes.make(
        Change(
            project_id=project_id,
            app_user_id=action.app_user_id,
            apply=lambda situation: perform(situation.customer, situation.catalog, situation.now, action),
            create=action.name in ("purchase", "store_outage"),
            claims=frozenset({(STORE, action.new_id)}) if action.name == "purchase" else frozenset(),
        )
    )
