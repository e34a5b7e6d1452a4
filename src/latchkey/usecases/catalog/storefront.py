"""What an app shows to one of its users. The rules are in `domain/storefront.py`."""

from __future__ import annotations

from latchkey.domain.storefront import Place, Storefront, storefront
from latchkey.storage.catalog import choices
from latchkey.usecases.engine.changes import Changes


async def load_storefront(changes: Changes, project_id: str, place: Place, app_user_id: str) -> Storefront:
    """The customer need not exist."""
    async with changes.database.acquire() as connection:
        choice = await choices.load(connection, changes.catalogs, project_id, app_user_id)
    return storefront(choice.catalog, place, choice.override, choice.enrolled)
