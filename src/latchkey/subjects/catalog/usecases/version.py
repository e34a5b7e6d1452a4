"""A project's catalog: loaded, and changed one change at a time; readers see a change as soon as it is committed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from latchkey.database.pool import Connection, Database, OneTransaction
from latchkey.domain.catalog import Catalog
from latchkey.domain.refusal import NotFound
from latchkey.engine.changes import Changes
from latchkey.engine.storage.catalog import catalogs
from latchkey.engine.storage.read_rows import load_projects


@asynccontextmanager
async def changing_catalog(database: Database, project_id: str) -> AsyncIterator[Connection]:
    """A transaction that begins by incrementing the catalog's version. The project's row stays locked until it ends, so
    a change never relies on something that another change is deleting. Reads and purchases do not wait."""
    async with database.transaction() as connection:
        # Once for a whole transaction: each time reads all versions of the row that it made before.
        if not isinstance(database, OneTransaction) and not await catalogs.announce(connection, project_id):
            raise NotFound(f"There is no project {project_id}.", param="project_id")
        yield connection


async def load_catalog(changes: Changes, project_id: str) -> Catalog:
    async with changes.database.acquire() as connection:
        return (await load_projects(connection, changes.catalogs, {project_id}))[project_id].catalog
