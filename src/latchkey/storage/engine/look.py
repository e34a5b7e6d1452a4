"""What a batch of changes needs to know, read in one statement and without locks.

`writing.write_at_once` notices if any of it has changed before the changes are written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from latchkey.domain.catalog import Catalog
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.customers.records import LastSeen, PurchaseKey, Stored, stored
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
    # The hashes of the API keys that are as they were.
    keys: Collection[bytes]


class KnownKey(NamedTuple):
    """An API key as this process knows it."""

    hash: bytes
    # The version (xmin) of its row.
    version: int


async def look(
    connection: Connection,
    catalogs: Catalogs,
    project_id: str,
    asked: Iterable[tuple[str, PurchaseKey | None]],
    keys: Collection[KnownKey] = (),
) -> Look | None:
    """For each app user id, and for each purchase that is claimed for it; and whether these API keys are as they were.
    None: there is no such project."""
    wanted = list(asked)
    rows = await connection.fetch(
        _LOOK,
        project_id,
        [app_user_id for app_user_id, _ in wanted],
        [claim[0] if claim is not None else None for _, claim in wanted],
        [claim[1] if claim is not None else None for _, claim in wanted],
        [one.hash for one in keys],
        [one.version for one in keys],
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
                one = by_key[key] = stored(key, row["state"], seen, row["seen"])
            found[row["app_user_id"]] = one
        if row["is_owned"]:
            owners[row["store"], row["store_id"]] = row["owner"]
    first = rows[0]
    catalog = await catalogs.priced(connection, project_id, first["catalog_version"], first["rates_version"])
    return Look(catalog, found, owners, first["keys"])
