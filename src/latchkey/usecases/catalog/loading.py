"""A project's catalog, for requests that need nothing else."""

from __future__ import annotations

from latchkey.domain.catalog import Catalog
from latchkey.usecases.engine.changes import Changes, load_projects


async def load_catalog(changes: Changes, project_id: str) -> Catalog:
    async with changes.database.acquire() as connection:
        return (await load_projects(connection, changes.catalogs, {project_id}))[project_id].catalog
