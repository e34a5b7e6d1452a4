"""Changing a catalog: one change at a time per project; readers see it as soon as it is committed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from latchkey.domain.refusal import NotFound
from latchkey.storage.catalog import version
from latchkey.storage.database import Connection, Database


@asynccontextmanager
async def changing_catalog(database: Database, project_id: str) -> AsyncIterator[Connection]:
    """A transaction that begins by incrementing the catalog's version. The project's row stays locked until it ends, so
    a change never relies on something that another change is deleting. Reads and purchases do not wait."""
    async with database.transaction() as connection:
        if not await version.announce(connection, project_id):
            raise NotFound(f"There is no project {project_id}.", param="project_id")
        yield connection
