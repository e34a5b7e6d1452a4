"""The version of a project's catalog. Every change of the catalog begins by incrementing it."""

from __future__ import annotations

from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_ANNOUNCE = query("announce_catalog")
_LOAD = query("catalog_version")


async def announce(connection: Connection, project_id: str) -> bool:
    """Increments the version and locks the project's row until the transaction ends. False: there is no such
    project."""
    return await connection.execute(_ANNOUNCE, project_id) != "UPDATE 0"


async def load(connection: Connection, project_id: str) -> int | None:
    version: int | None = await connection.fetchval(_LOAD, project_id)
    return version
