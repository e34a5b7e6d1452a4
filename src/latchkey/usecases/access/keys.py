"""API keys: shown once, stored only as a hash; with a name, scopes and a rate limit; revocable."""

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
from latchkey.storage.access import keys
from latchkey.storage.access.keys import ApiKey as ApiKey
from latchkey.storage.access.keys import Kind as Kind
from latchkey.storage.access.keys import Scope as Scope
from latchkey.storage.database import Database
from latchkey.usecases.access.projects import PUBLIC_PREFIXES, SANDBOX_PREFIXES, load_app, load_project

KeyEnvironment = Literal["production", "sandbox"]
SECRET_PREFIX = "sk_"  # noqa: S105 - a prefix, not a secret
SCOPES: tuple[Scope, ...] = ("read", "write")
RATE_LIMIT = 480
FASTEST = 1_000_000
_LETTERS = string.ascii_letters + string.digits
# 32 of 62 characters are 190 bits. That cannot be guessed, so a fast hash is as safe as a slow one.
_LENGTH = 32


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key with its plaintext, which is not stored and cannot be shown again."""

    key: ApiKey
    plaintext: str = field(repr=False)


def hash_of(plaintext: str) -> bytes:
    return hashlib.sha256(plaintext.encode()).digest()


def is_sandbox(key: str) -> bool:
    """Whether a public key, or its hint, is one for tests only."""
    return key.startswith((PUBLIC_PREFIXES["test_store"], *SANDBOX_PREFIXES.values()))


def actor_of(key: ApiKey) -> str:
    """The name of this key as an actor in the audit log."""
    return f"API key {key.name} ({key.id})"


async def create_secret_key(
    database: Database,
    project_id: str,
    name: str,
    now: Ms,
    *,
    scopes: Collection[str] = SCOPES,
    rate_limit: int = RATE_LIMIT,
) -> IssuedKey:
    """A key for servers. It reads and writes everything in the project, as its scopes allow."""
    chosen = [scope for scope in SCOPES if scope in scopes]
    if not chosen or set(scopes) - set(SCOPES):
        raise Invalid(f"Scopes are some of {', '.join(SCOPES)}.", param="scopes")
    await load_project(database, project_id)
    return await _issue(database, project_id, None, SECRET_PREFIX, name, chosen, rate_limit, now)


async def create_public_key(
    database: Database,
    project_id: str,
    app_id: str,
    name: str,
    now: Ms,
    *,
    rate_limit: int = RATE_LIMIT,
    environment: KeyEnvironment = "production",
) -> IssuedKey:
    """A key that ships inside an app. Anybody can read it there, so it may do little, whatever its scopes. A sandbox
    key only has another prefix, which the web SDK looks at; it never decides the environment of a purchase."""
    app = await load_app(database, project_id, app_id)
    prefix: str | None = PUBLIC_PREFIXES[app.store]
    if environment == "sandbox":
        prefix = SANDBOX_PREFIXES.get(app.store)
    if prefix is None:
        raise Invalid(
            f"Only an app in {', '.join(SANDBOX_PREFIXES)} has sandbox keys; others use one key for both.",
            param="environment",
        )
    return await _issue(database, project_id, app.id, prefix, name, list(SCOPES), rate_limit, now)


async def list_keys(
    database: Database,
    project_id: str,
    *,
    after: str | None = None,
    limit: int = 100,
    kind: Kind | None = None,
    app_id: str | None = None,
) -> list[ApiKey]:
    """A project's keys, oldest first, including revoked ones; optionally of one kind or app."""
    async with database.acquire() as connection:
        if after is not None and await keys.load(connection, project_id, after) is None:
            raise NotFound(f"There is no key {after!r} to start after.", param="starting_after")
        return await keys.page(connection, project_id, after, limit, kind, app_id)


async def load_key(database: Database, project_id: str, key_id: str) -> ApiKey:
    async with database.acquire() as connection:
        return _found(await keys.load(connection, project_id, key_id), key_id)


async def find_key(database: Database, plaintext: str) -> ApiKey | None:
    """The key this plaintext belongs to, unless it was revoked."""
    async with database.acquire() as connection:
        return await keys.find(connection, hash_of(plaintext))


async def revoke_key(database: Database, project_id: str, key_id: str, now: Ms) -> ApiKey:
    """The next request with it is refused. Revoking twice keeps the first time."""
    async with database.transaction() as connection:
        return _found(await keys.revoke(connection, project_id, key_id, now), key_id)


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
    name = checked_name(name)
    async with database.transaction() as connection:
        key = await keys.create(
            connection,
            key_id=f"key_{secrets.token_hex(8)}",
            project_id=project_id,
            app_id=app_id,
            kind="secret" if prefix == SECRET_PREFIX else "public",
            name=name,
            scopes=scopes,
            hash=hash_of(plaintext),
            hint=hint,
            rate_limit=rate_limit,
            now=now,
            plaintext=None if prefix == SECRET_PREFIX else plaintext,
        )
    return IssuedKey(key, plaintext)


def _found(key: ApiKey | None, key_id: str) -> ApiKey:
    if key is None:
        raise NotFound(f"There is no key {key_id} in this project.", param="key_id")
    return key
