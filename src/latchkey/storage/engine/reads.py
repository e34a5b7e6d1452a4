"""The two hot reads: customers by their ids, many in one query, with or without authenticating keys.

This is the hottest code of storage. Rows are unpacked by position, in the order of the columns in
`queries/reading.sql`, and made into structs, which cost a tenth of a frozen dataclass.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import asyncpg
from msgspec import Struct, json

from latchkey.domain.catalog import Catalog
from latchkey.domain.instants import Ms
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.customers.records import LastSeen
from latchkey.storage.database import Connection
from latchkey.storage.errors import InvalidValueError
from latchkey.storage.sql import query

_READ = query("read_customers")
_ADMIT = query("admit_reads")


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
    rate_limit: int
    catalog_version: int
    key_id: str
    project_id: str
    app_id: str | None
    store: str | None
    kind: str
    scopes: list[str]


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
    hashes: Sequence[bytes],
    amounts: Sequence[int],
    app_user_ids: Sequence[str | None],
) -> tuple[list[AdmittedForReads | None], list[Row | None]]:
    """Reads with keys: for each key its hash and its number of reads; and all ids, those of the first key first. None
    as an id only authenticates the key.

    Returns keys and customers in the requested order. None as a key: it is unknown or revoked."""
    firsts = [0, *accumulate(amounts[:-1])]
    try:
        rows = await connection.fetch(_ADMIT, hashes, firsts, amounts, app_user_ids)
    except asyncpg.DataError as error:
        raise InvalidValueError(str(error)) from error
    # Only the first row of each key contains the key's data. Places begin with 1.
    admitted = {row["place"] - 1: _ADMITTED.decode(of_key) for row in rows if (of_key := row["of_key"]) is not None}
    keys = [admitted.get(first) for first in firsts]
    catalog_at: list[Catalog] = []
    for key, amount in zip(keys, amounts, strict=True):
        known = _NO_CATALOG if key is None else await catalogs.at(connection, key.project_id, key.catalog_version)
        catalog_at += [known] * amount
    found: list[Row | None] = [None] * len(app_user_ids)
    for place, row_key, state, clock_now, due_at, at, platform, system, app, country, _of_key in rows:
        if row_key is not None:
            seen = LastSeen(at, platform, system, app, country)
            found[place - 1] = Row(row_key, state, catalog_at[place - 1], clock_now, due_at, seen)
    return keys, found
