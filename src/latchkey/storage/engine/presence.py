"""When and from where customers were last seen."""

from __future__ import annotations

from collections.abc import Sequence

from latchkey.storage.customers.records import LastSeen
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_TOUCH = query("touch_customers")


async def write(connection: Connection, notes: Sequence[tuple[tuple[str, int], LastSeen]]) -> None:
    """Each note: project and key of the customer, and the last visit. Must be sorted in the order of row locks."""
    await connection.execute(
        _TOUCH,
        [project_id for (project_id, _), _ in notes],
        [key for (_, key), _ in notes],
        [seen.at for _, seen in notes],
        [seen.platform for _, seen in notes],
        [seen.platform_version for _, seen in notes],
        [seen.app_version for _, seen in notes],
        [seen.country for _, seen in notes],
    )
