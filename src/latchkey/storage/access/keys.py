"""API keys. Only the hash of a key and a hint are stored; of public keys, which are no secret, the key itself too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection, Record
from latchkey.storage.sql import query

_CREATE = query("create_key")
_PAGE = query("list_keys")
_LOAD = query("load_key")
_FIND = query("find_key")
_REVOKE = query("revoke_key")

Kind = Literal["secret", "public"]
Scope = Literal["read", "write"]


@dataclass(frozen=True, slots=True)
class ApiKey:
    id: str
    project_id: str
    app_id: str | None
    kind: Kind
    name: str
    scopes: tuple[Scope, ...]
    hint: str
    rate_limit: int
    created_at: Ms
    revoked_at: Ms | None
    # Null for secret keys, and for public keys made before it was stored.
    plaintext: str | None = field(repr=False)


async def create(
    connection: Connection,
    *,
    key_id: str,
    project_id: str,
    app_id: str | None,
    kind: Kind,
    name: str,
    scopes: Sequence[Scope],
    hash: bytes,
    hint: str,
    rate_limit: int,
    now: Ms,
    plaintext: str | None,
) -> ApiKey:
    row = await connection.fetchrow(
        _CREATE, key_id, project_id, app_id, kind, name, scopes, hash, hint, rate_limit, now, plaintext
    )
    assert row is not None, "an insert without a conflict clause returns its row"
    return _key(row)


async def page(
    connection: Connection, project_id: str, after: str | None, limit: int, kind: Kind | None, app_id: str | None
) -> list[ApiKey]:
    """Oldest first, including revoked ones; optionally of one kind or app."""
    return [_key(row) for row in await connection.fetch(_PAGE, project_id, after, limit, kind, app_id)]


async def load(connection: Connection, project_id: str, key_id: str) -> ApiKey | None:
    return _found(await connection.fetchrow(_LOAD, project_id, key_id))


async def find(connection: Connection, hash: bytes) -> ApiKey | None:
    """The key with this hash, unless it was revoked."""
    return _found(await connection.fetchrow(_FIND, hash))


async def revoke(connection: Connection, project_id: str, key_id: str, now: Ms) -> ApiKey | None:
    """Revoking twice keeps the first time. None: there is no such key."""
    return _found(await connection.fetchrow(_REVOKE, project_id, key_id, now))


def _found(row: Record | None) -> ApiKey | None:
    return None if row is None else _key(row)


def _key(row: Record) -> ApiKey:
    return ApiKey(
        id=row["id"],
        project_id=row["project_id"],
        app_id=row["app_id"],
        kind=row["kind"],
        name=row["name"],
        scopes=tuple(row["scopes"]),
        hint=row["hint"],
        rate_limit=row["rate_limit"],
        created_at=row["created_at"],
        revoked_at=row["revoked_at"],
        plaintext=row["plaintext"],
    )
