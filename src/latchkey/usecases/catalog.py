"""Changing a catalog: one change at a time in each project, and readers know of it as soon as it is committed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from latchkey.domain.refusal import NotFound
from latchkey.storage.database import Connection, Database
from latchkey.storage.sql import query

ANNOUNCE_CATALOG = query("announce_catalog")


@asynccontextmanager
async def changing_catalog(database: Database, project_id: str) -> AsyncIterator[Connection]:
    """A transaction that begins with the catalog's next version. The project's row stays locked until the end, so two
    changes can never each rely on what the other takes away; reads and purchases do not wait for it."""
    async with database.transaction() as connection:
        if await connection.execute(ANNOUNCE_CATALOG, project_id) == "UPDATE 0":
            raise NotFound(f"There is no project {project_id}.", param="project_id")
        yield connection
