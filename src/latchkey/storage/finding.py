"""Things of a project by their names: webhooks, keys, apps, and what is in the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_BY_NAME = query("find_by_name")

Kind = Literal["webhook", "key", "app", "product", "entitlement", "offering", "experiment"]


@dataclass(frozen=True, slots=True)
class Named:
    kind: Kind
    id: str
    name: str


async def by_name(connection: Connection, project_id: str, text: str, limit: int) -> list[Named]:
    """Those whose id is the text, or whose name (of a webhook also the address) contains it."""
    rows = await connection.fetch(_BY_NAME, project_id, text, limit)
    return [Named(row["kind"], row["id"], row["name"]) for row in rows]
