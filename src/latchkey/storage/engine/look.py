"""What a batch of changes needs to know, read in one statement and without locks.

`writing.write_at_once` notices if any of it has changed before the changes are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.identity import RestoreBehavior
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.customers.records import LastSeen, PurchaseKey, Stored
from latchkey.storage.customers.state_format import decode
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_LOOK = query("look_at_customers")


@dataclass(frozen=True, slots=True)
class Look:
    catalog: Catalog
    # The customers that exist, by app user id. Two ids of one customer have the same object.
    found: dict[str, Stored]
    # Who owns the claimed purchases: a customer's key, or None where the owner was erased. Unknown ones are left out.
    owners: Mapping[PurchaseKey, int | None]


async def look(
    connection: Connection,
    catalogs: Catalogs,
    project_id: str,
    asked: Iterable[tuple[str, PurchaseKey | None]],
) -> Look | None:
    """For each app user id, and for each purchase that is claimed for it. None: there is no such project."""
    wanted = list(asked)
    rows = await connection.fetch(
        _LOOK,
        project_id,
        [app_user_id for app_user_id, _ in wanted],
        [claim[0] if claim is not None else None for _, claim in wanted],
        [claim[1] if claim is not None else None for _, claim in wanted],
    )
    if not rows:
        return None
    by_key: dict[int, Stored] = {}
    found: dict[str, Stored] = {}
    owners: dict[PurchaseKey, int | None] = {}
    for row in rows:
        key = row["key"]
        if key is not None:
            one = by_key.get(key)
            if one is None:
                seen = LastSeen(row["at"], row["platform"], row["platform_version"], row["app_version"], row["country"])
                one = by_key[key] = Stored(key, decode(row["state"]), seen, row["revision"])
            found[row["app_user_id"]] = one
        if row["is_owned"]:
            owners[row["store"], row["store_id"]] = row["owner"]
    first = rows[0]
    catalog = await catalogs.priced(connection, project_id, first["catalog_version"], first["rates_version"])
    return Look(catalog, found, owners)


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
