"""API keys: shown once, kept only as a hash, named, scoped, limited, revocable."""

from __future__ import annotations

import hashlib
import secrets
import string
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_name
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.storage.database import Database, Record
from latchkey.storage.sql import query
from latchkey.usecases.admission import Scope
from latchkey.usecases.projects import PUBLIC_PREFIXES, load_app, load_project

CREATE_KEY = query("create_key")
LIST_KEYS = query("list_keys")
LOAD_KEY = query("load_key")
FIND_KEY = query("find_key")
REVOKE_KEY = query("revoke_key")

Kind = Literal["secret", "public"]

SECRET_PREFIX = "sk_"  # noqa: S105 - how a secret begins, not one
SCOPES: tuple[Scope, ...] = ("read", "write")
RATE_LIMIT = 480
FASTEST = 1_000_000
_LETTERS = string.ascii_letters + string.digits
# 32 of 62 letters are 190 bits: nobody guesses one, so a fast hash keeps it as safely as a slow one.
_LENGTH = 32


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


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key with its plaintext, which exists nowhere else and never again."""

    key: ApiKey
    plaintext: str = field(repr=False)


def hash_of(plaintext: str) -> bytes:
    return hashlib.sha256(plaintext.encode()).digest()


async def create_secret_key(
    database: Database,
    project_id: str,
    name: str,
    now: Ms,
    *,
    scopes: Collection[str] = SCOPES,
    rate_limit: int = RATE_LIMIT,
) -> IssuedKey:
    """A key for servers: it reads and writes, as its scopes say, everything in the project."""
    chosen = [scope for scope in SCOPES if scope in scopes]
    if not chosen or set(scopes) - set(SCOPES):
        raise Invalid(f"Scopes are some of {', '.join(SCOPES)}.", param="scopes")
    await load_project(database, project_id)
    return await _issue(database, project_id, None, SECRET_PREFIX, name, chosen, rate_limit, now)


async def create_public_key(
    database: Database, project_id: str, app_id: str, name: str, now: Ms, *, rate_limit: int = RATE_LIMIT
) -> IssuedKey:
    """A key that ships inside an app. What it may do is limited by being public, whatever its scopes."""
    app = await load_app(database, project_id, app_id)
    return await _issue(database, project_id, app.id, PUBLIC_PREFIXES[app.store], name, list(SCOPES), rate_limit, now)


async def list_keys(
    database: Database,
    project_id: str,
    *,
    after: str | None = None,
    limit: int = 100,
    kind: Kind | None = None,
    app_id: str | None = None,
) -> list[ApiKey]:
    """A project's keys, oldest first, revoked ones too; only of one kind or of one app, where that is asked for."""
    async with database.acquire() as connection:
        if after is not None and await connection.fetchrow(LOAD_KEY, project_id, after) is None:
            raise NotFound(f"There is no key {after!r} to start after.", param="starting_after")
        return [_key(row) for row in await connection.fetch(LIST_KEYS, project_id, after, limit, kind, app_id)]


async def load_key(database: Database, project_id: str, key_id: str) -> ApiKey:
    async with database.acquire() as connection:
        row = await connection.fetchrow(LOAD_KEY, project_id, key_id)
    return _found(row, key_id)


async def find_key(database: Database, plaintext: str) -> ApiKey | None:
    """The key this plaintext belongs to, unless it was revoked."""
    async with database.acquire() as connection:
        row = await connection.fetchrow(FIND_KEY, hash_of(plaintext))
    return None if row is None else _key(row)


async def revoke_key(database: Database, project_id: str, key_id: str, now: Ms) -> ApiKey:
    """From the next request on, nobody gets in with it. Revoking twice keeps the first moment."""
    async with database.transaction() as connection:
        row = await connection.fetchrow(REVOKE_KEY, project_id, key_id, now)
    return _found(row, key_id)


async def _issue(
    database: Database,
    project_id: str,
    app_id: str | None,
    prefix: str,
    name: str,
    scopes: list[Scope],
    rate_limit: int,
    now: Ms,
) -> IssuedKey:
    if not 1 <= rate_limit <= FASTEST:
        raise Invalid(f"A rate limit is from 1 to {FASTEST:,} requests a minute.", param="rate_limit")
    plaintext = prefix + "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
    hint = f"{prefix}…{plaintext[-4:]}"
    kind = "secret" if prefix == SECRET_PREFIX else "public"
    key_id = f"key_{secrets.token_hex(8)}"
    async with database.transaction() as connection:
        row = await connection.fetchrow(
            CREATE_KEY, key_id, project_id, app_id, kind, checked_name(name), scopes, hash_of(plaintext), hint,
            rate_limit, now,
        )  # fmt: skip
    return IssuedKey(_found(row, key_id), plaintext)


def _found(row: Record | None, key_id: str) -> ApiKey:
    if row is None:
        raise NotFound(f"There is no key {key_id} in this project.", param="key_id")
    return _key(row)


def _key(row: Record) -> ApiKey:
    key_id, project_id, app_id, kind, name, scopes, hint, rate_limit, created_at, revoked_at = row
    return ApiKey(key_id, project_id, app_id, kind, name, tuple(scopes), hint, rate_limit, created_at, revoked_at)
