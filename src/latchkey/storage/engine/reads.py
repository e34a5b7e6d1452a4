"""The two hot reads: customers by their ids, many in one query, with or without authenticating keys.

This is the hottest code of storage. Rows are unpacked by position, in the order of the columns in
`queries/reading.sql`, and made into structs, which cost a tenth of a frozen dataclass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import asyncpg
from msgspec import Struct, json

from latchkey.domain.catalog import Catalog
from latchkey.domain.instants import Ms
from latchkey.domain.leases import Count
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.customers.records import LastSeen
from latchkey.storage.database import Connection
from latchkey.storage.engine.admission import columns, without_leases
from latchkey.storage.errors import InvalidValueError
from latchkey.storage.sql import query

_READ = query("read_customers")
_ADMIT = query("admit_reads")
_ADMIT_WITH_LEASES = query("admit_reads_with_leases")
_LEASED = query("read_leased")


class Row(Struct, frozen=True, gc=False):
    """A customer, not yet decoded: one that cannot be decoded fails only its own request."""

    key: int
    state: bytes
    catalog: Catalog
    # The time of the customer's test clock, if it is on one.
    clock_now: Ms | None
    # When the customer next changes by itself, as of the last change.
    due_at: Ms | None
    last_seen: LastSeen


class AdmittedForReads(Struct, frozen=True, array_like=True, gc=False):
    """Like `admission.Admitted`, with the version of the project's catalog. `admit_reads` returns it as one array."""

    granted: int
    retry_after_us: int | None
    used: int | None
    open_us: int | None
    rate_limit: int
    catalog_version: int
    revision: int
    key_id: str
    project_id: str
    app_id: str | None
    store: str | None
    kind: str
    scopes: list[str]
    expires_at: int | None
    allowed_networks: list[str] | None
    shape: str
    leased: int = 0
    leased_at: int | None = None
    leased_us: int | None = None


class Known(Struct, frozen=True, gc=False):
    """A key and its catalog as a statement found them. `read_leased` finds nothing if either has changed."""

    hash: bytes
    revision: int
    project_id: str
    catalog_version: int
    catalog: Catalog


_ADMITTED = json.Decoder(AdmittedForReads)
_NO_CATALOG = Catalog()


async def read(
    connection: Connection, catalogs: Catalogs, project_ids: Sequence[str], app_user_ids: Sequence[str]
) -> list[Row | None]:
    """The customers, in the requested order; None where there is none."""
    try:
        rows = await connection.fetch(_READ, project_ids, app_user_ids)
    except asyncpg.DataError as error:
        raise InvalidValueError(str(error)) from error
    known = {
        (project_id, version): await catalogs.at(connection, project_id, version)
        for project_id, version in {(row["project_id"], row["catalog_version"]) for row in rows}
        if project_id is not None
    }
    return [
        Row(key, state, known[project_id, version], clock_now, due_at, LastSeen(at, platform, system, app, country))
        if key is not None
        else None
        for project_id, version, key, state, clock_now, due_at, at, platform, system, app, country in rows
    ]


async def admit(
    connection: Connection,
    catalogs: Catalogs,
    counts: Mapping[bytes, Count],
    amounts: Sequence[int],
    app_user_ids: Sequence[str | None],
) -> tuple[list[tuple[AdmittedForReads, Known] | None], list[Row | None]]:
    """Reads with keys: for each key how to count its reads, and how many there are; and all ids, those of the first key
    first. None as an id only authenticates the key.

    Returns keys and customers in the requested order. None as a key: it is unknown or revoked."""
    firsts = [0, *accumulate(amounts[:-1])]
    try:
        if without_leases(counts.values()):
            rows = await connection.fetch(_ADMIT, list(counts), firsts, amounts, app_user_ids)
        else:
            rows = await connection.fetch(
                _ADMIT_WITH_LEASES, list(counts), firsts, amounts, *columns(counts.values()), app_user_ids
            )
    except asyncpg.DataError as error:
        raise InvalidValueError(str(error)) from error
    # Only the first row of each key contains the key's data. Places begin with 1.
    admitted = {row["place"] - 1: _ADMITTED.decode(of_key) for row in rows if (of_key := row["of_key"]) is not None}
    keys: list[tuple[AdmittedForReads, Known] | None] = []
    catalog_at: list[Catalog] = []
    for hash, first, amount in zip(counts, firsts, amounts, strict=True):
        key = admitted.get(first)
        if key is None:
            keys.append(None)
            catalog_at += [_NO_CATALOG] * amount
            continue
        catalog = await catalogs.at(connection, key.project_id, key.catalog_version)
        keys.append((key, Known(hash, key.revision, key.project_id, key.catalog_version, catalog)))
        catalog_at += [catalog] * amount
    found: list[Row | None] = [None] * len(app_user_ids)
    for place, row_key, state, clock_now, due_at, at, platform, system, app, country, _of_key in rows:
        if row_key is not None:
            seen = LastSeen(at, platform, system, app, country)
            found[place - 1] = Row(row_key, state, catalog_at[place - 1], clock_now, due_at, seen)
    return keys, found


async def read_leased(
    connection: Connection, known: Known, app_user_ids: Sequence[str | None]
) -> list[Row | None] | None:
    """Reads with one key that a lease covers, in the requested order. None: the key or the catalog has changed."""
    try:
        rows = await connection.fetch(
            _LEASED, known.hash, known.revision, known.project_id, known.catalog_version, app_user_ids
        )
    except asyncpg.DataError as error:
        raise InvalidValueError(str(error)) from error
    if not rows:
        return None
    catalog = known.catalog
    found: list[Row | None] = [None] * len(app_user_ids)
    for place, key, state, clock_now, due_at, at, platform, system, app, country in rows:
        if key is not None:
            seen = LastSeen(at, platform, system, app, country)
            found[place - 1] = Row(key, state, catalog, clock_now, due_at, seen)
    return found
