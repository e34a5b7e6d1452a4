"""The catalog and settings of a project, for changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.identity import RestoreBehavior
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_LOAD = query("project_settings")


@dataclass(frozen=True, slots=True)
class Project:
    catalog: Catalog
    restore_behavior: RestoreBehavior


async def load_projects(connection: Connection, catalogs: Catalogs, ids: Iterable[str]) -> dict[str, Project]:
    """By id; a project that does not exist is left out."""
    rows = await connection.fetch(_LOAD, sorted(ids))
    return {
        row["id"]: Project(
            await catalogs.priced(connection, row["id"], row["catalog_version"], row["rates_version"]),
            RestoreBehavior(row["restore_behavior"]),
        )
        for row in rows
    }
