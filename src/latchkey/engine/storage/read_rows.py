"""The two hot reads: customers by their ids, many in one query, with or without authenticating keys; and what a batch
of changes needs to know, read in one statement and without locks. `writes.write_at_once` notices if any of it has
changed before the changes are written."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import asyncpg
from msgspec import Struct, json
from msgspec.structs import astuple

from latchkey.database.errors import InvalidValueError
from latchkey.database.pool import Connection, Executor
from latchkey.database.sql import query
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import LastSeen
from latchkey.domain.customers.identity import RestoreBehavior
from latchkey.domain.instants import Ms
from latchkey.domain.leases import LeaseCount
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.records import PurchaseKey, Stored, last_seen_of
from latchkey.engine.storage.state import decode


class Look(Struct, frozen=True):
    catalog: Catalog
    # The customers that exist, by app user id. Two ids of one customer have the same object.
    found: dict[str, Stored]
    # Who owns the claimed purchases: a customer's key, or None where the owner was erased. Unknown ones are left out.
    owners: Mapping[PurchaseKey, int | None]


async def look(
    connection: Connection, catalogs: Catalogs, project_id: str, asked: Iterable[tuple[str, PurchaseKey | None]]
) -> Look | None:
    """For each app user id, and for each purchase that is claimed for it. None: there is no such project."""
    wanted = list(asked)
    rows = await connection.fetch(
        query("look_at_customers"),
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
                one = by_key[key] = Stored(key, decode(row["state"]), last_seen_of(row), row["revision"])
            found[row["app_user_id"]] = one
        if row["is_owned"]:
            owners[row["store"], row["store_id"]] = row["owner"]
    first = rows[0]
    catalog = await catalogs.priced(connection, project_id, first["catalog_version"], first["rates_version"])
    return Look(catalog, found, owners)


class ProjectCatalog(Struct, frozen=True):
    catalog: Catalog
    restore_behavior: RestoreBehavior


async def load_projects(connection: Connection, catalogs: Catalogs, ids: Iterable[str]) -> dict[str, ProjectCatalog]:
    """By id; a project that does not exist is left out."""
    rows = await connection.fetch(query("project_settings"), sorted(ids))
    return {
        row["id"]: ProjectCatalog(
            await catalogs.priced(connection, row["id"], row["catalog_version"], row["rates_version"]),
            RestoreBehavior(row["restore_behavior"]),
        )
        for row in rows
    }


class StoredRow(Struct, frozen=True, gc=False):
    """A customer, not yet decoded: one that cannot be decoded fails only its own request."""

    key: int
    state: bytes
    catalog: Catalog
    # The time of the customer's test clock, if it is on one.
    clock_now: Ms | None
    # When the customer next changes by itself, as of the last change.
    due_at: Ms | None
    last_seen: LastSeen


class Admitted(Struct, frozen=True, array_like=True, gc=False):
    """A key, and how many requests its rate limit admitted, as the array that `admit_reads` returns."""

    # How many of the requests are admitted, and when the next one would be; None if all are.
    granted: int
    retry_after_us: int | None
    # How many requests of the last 60 seconds are counted; None if none was counted now.
    used: int | None
    # Requests were refused while processes have leases, which they hand back within this time.
    open_us: int | None
    rate_limit: int
    # Of the project's catalog, and of the key's row.
    catalog_version: int
    revision: int
    key_id: str
    project_id: str
    app_id: str | None
    store: str | None
    kind: str
    scopes: list[str]
    # The key's rules, if it has any.
    expires_at: int | None
    allowed_networks: list[str] | None
    shape: str
    # A lease: its size, its run, and how long it lasts. 0: none was granted.
    leased: int = 0
    leased_at: int | None = None
    leased_us: int | None = None


class CachedKey(Struct, frozen=True, gc=False):
    """A key and its catalog as a statement found them. `read_leased` finds nothing if either has changed."""

    hash: bytes
    revision: int
    project_id: str
    catalog_version: int
    catalog: Catalog


_ADMITTED = json.Decoder(Admitted)
_NO_CATALOG = Catalog()


async def read(connection: Connection, catalogs: Catalogs, asked: Sequence[tuple[str, str]]) -> list[StoredRow | None]:
    """The customers with these (project, app user id), in the requested order; None where there is none."""
    try:
        rows = await connection.fetch(
            query("read_customers"), [project_id for project_id, _ in asked], [id for _, id in asked]
        )
    except asyncpg.DataError as error:
        raise InvalidValueError(str(error)) from error
    known = {
        (project_id, version): await catalogs.at(connection, project_id, version)
        for project_id, version in {(row["project_id"], row["catalog_version"]) for row in rows}
        if project_id is not None
    }
    return [
        StoredRow(
            key, state, known[project_id, version], clock_now, due_at, LastSeen(at, platform, system, app, country)
        )
        if key is not None
        else None
        for project_id, version, key, state, clock_now, due_at, at, platform, system, app, country in rows
    ]


async def admit(
    connection: Connection,
    catalogs: Catalogs,
    counts: Mapping[bytes, LeaseCount],
    amounts: Sequence[int],
    app_user_ids: Sequence[str | None],
) -> tuple[list[tuple[Admitted, CachedKey] | None], list[StoredRow | None]]:
    """Reads with keys: for each key how to count its reads, and how many there are; and all ids, those of the first key
    first. None as an id only authenticates the key.

    Returns keys and customers in the requested order. None as a key: it is unknown or revoked."""
    firsts = [0, *accumulate(amounts[:-1])]
    try:
        if all(count.without_leases for count in counts.values()):
            rows = await connection.fetch(query("admit_reads"), list(counts), firsts, amounts, app_user_ids)
        else:
            # One list for each field of LeaseCount.
            counted = map(list, zip(*counts.values(), strict=True))
            rows = await connection.fetch(
                query("admit_reads_with_leases"), list(counts), firsts, amounts, *counted, app_user_ids
            )
    except asyncpg.DataError as error:
        raise InvalidValueError(str(error)) from error
    # Only the first row of each key contains the key's data. Places begin with 1.
    admitted = {row["place"] - 1: _ADMITTED.decode(of_key) for row in rows if (of_key := row["of_key"]) is not None}
    keys: list[tuple[Admitted, CachedKey] | None] = []
    catalog_at: list[Catalog] = []
    for hash, first, amount in zip(counts, firsts, amounts, strict=True):
        key = admitted.get(first)
        if key is None:
            keys.append(None)
            catalog_at += [_NO_CATALOG] * amount
            continue
        catalog = await catalogs.at(connection, key.project_id, key.catalog_version)
        keys.append((key, CachedKey(hash, key.revision, key.project_id, key.catalog_version, catalog)))
        catalog_at += [catalog] * amount
    found: list[StoredRow | None] = [None] * len(app_user_ids)
    for place, row_key, state, clock_now, due_at, at, platform, system, app, country, _of_key in rows:
        if row_key is not None:
            seen = LastSeen(at, platform, system, app, country)
            found[place - 1] = StoredRow(row_key, state, catalog_at[place - 1], clock_now, due_at, seen)
    return keys, found


async def read_leased(
    connection: Connection, known: CachedKey, app_user_ids: Sequence[str | None]
) -> list[StoredRow | None] | None:
    """Reads with one key that a lease covers, in the requested order. None: the key or the catalog has changed."""
    try:
        rows = await connection.fetch(
            query("read_leased"), known.hash, known.revision, known.project_id, known.catalog_version, app_user_ids
        )
    except asyncpg.DataError as error:
        raise InvalidValueError(str(error)) from error
    if not rows:
        return None
    catalog = known.catalog
    found: list[StoredRow | None] = [None] * len(app_user_ids)
    for place, key, state, clock_now, due_at, at, platform, system, app, country in rows:
        if key is not None:
            seen = LastSeen(at, platform, system, app, country)
            found[place - 1] = StoredRow(key, state, catalog, clock_now, due_at, seen)
    return found


async def write(connection: Executor, notes: Sequence[tuple[tuple[str, int], LastSeen]]) -> None:
    """Each note: project and key of the customer, and the last visit. Must be sorted in the order of row locks."""
    if rows := [(*place, *astuple(seen)) for place, seen in notes]:
        await connection.execute(query("touch_customers"), *zip(*rows, strict=True))
