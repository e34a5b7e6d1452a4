"""API keys: shown once, stored only as a hash; with a name, scopes and a rate limit; revocable."""

import hashlib
import secrets
import string
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Literal

from latchkey.database.pool import Connection, Database
from latchkey.domain.access import api_key as key_rules
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.naming import checked_name
from latchkey.domain.refusal import Invalid, Refusal, found
from latchkey.domain.stores.store import TEST_STORE
from latchkey.engine.storage import keys
from latchkey.engine.storage.keys import ApiKey, Kind, Scope, Shape
from latchkey.subjects.projects.usecases import PUBLIC_PREFIXES, SANDBOX_PREFIXES, load_app, load_project

KeyEnvironment = Literal["production", "sandbox"]
SECRET_PREFIX = "sk_"  # noqa: S105 - a prefix, not a secret
# `charts` is for keys that read charts and nothing else; `read` includes it.
SCOPES: tuple[Scope, ...] = ("read", "write", "charts")
SHAPES: tuple[Shape, ...] = ("latchkey", "vendor")
USUAL_SCOPES: tuple[Scope, ...] = ("read", "write")
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
    return key.startswith((PUBLIC_PREFIXES[TEST_STORE], *SANDBOX_PREFIXES.values()))


def actor_of(key: ApiKey) -> str:
    """The name of this key as an actor in the audit log."""
    return f"API key {key.name} ({key.id})"


async def create_secret_key(
    database: Database,
    project_id: str,
    name: str,
    now: Ms,
    *,
    scopes: Collection[str] = USUAL_SCOPES,
    rate_limit: int = RATE_LIMIT,
    expires_at: Ms | None = None,
    allowed_networks: Collection[str] = (),
    shape: str = "latchkey",
) -> IssuedKey:
    """A key for servers. It reads and writes everything in the project, as its scopes allow."""
    key_rules.checked_expiry(expires_at, now)
    networks = key_rules.checked_networks(allowed_networks)
    chosen = [scope for scope in SCOPES if scope in scopes]
    if not chosen or set(scopes) - set(SCOPES):
        raise Invalid(f"Scopes are some of {', '.join(SCOPES)}.", param="scopes")
    shaped = next((known for known in SHAPES if known == shape), None)
    if shaped is None:
        raise Invalid(f"A shape is one of {', '.join(SHAPES)}.", param="shape")
    await load_project(database, project_id)
    async with database.transaction() as connection:
        new = ApiKey(
            project_id=project_id,
            kind="secret",
            name=name,
            scopes=tuple(chosen),
            rate_limit=rate_limit,
            created_at=now,
            expires_at=expires_at,
            allowed_networks=tuple(networks),
            shape=shaped,
        )
        return await _issue(connection, SECRET_PREFIX, new)


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
    async with database.transaction() as connection:
        new = ApiKey(
            project_id=project_id,
            app_id=app.id,
            kind="public",
            name=name,
            scopes=SCOPES,
            rate_limit=rate_limit,
            created_at=now,
        )
        return await _issue(connection, prefix, new)


async def list_keys(
    database: Database,
    project_id: str,
    after: str | None = None,
    limit: int | None = 100,
    *,
    kind: Kind | None = None,
    app_id: str | None = None,
) -> list[ApiKey]:
    """A project's keys, oldest first, including revoked ones; optionally of one kind or app."""
    async with database.acquire() as connection:
        if after is not None:
            last = await keys.load(connection, project_id, after)
            found(last, f"There is no key {after!r} to start after.", "starting_after")
        return await keys.page(connection, project_id, after, limit, kind, app_id)


async def load_key(database: Database, project_id: str, key_id: str) -> ApiKey:
    return _found(await keys.load(database, project_id, key_id), key_id)


async def find_key(database: Database, plaintext: str) -> ApiKey | None:
    """The key this plaintext belongs to, unless it was revoked."""
    return await keys.find(database, hash_of(plaintext))


async def revoke_key(database: Database, project_id: str, key_id: str, now: Ms) -> ApiKey:
    """The next request with it is refused. Revoking twice keeps the first time."""
    async with database.transaction() as connection:
        return _found(await keys.revoke(connection, project_id, key_id, now), key_id)


async def change_key(
    database: Database, project_id: str, key_id: str, change: Callable[[ApiKey], ApiKey], now: Ms
) -> ApiKey:
    """Changes a key's name and rules, from the next request on. An expired key works again if it is given more time.
    Scopes and shape stay: other ones are for another key."""
    async with database.transaction() as connection:
        key = _in_use(await keys.lock(connection, project_id, key_id), key_id)
        wanted = change(key)
        _check_rate(wanted.rate_limit)
        if wanted.expires_at != key.expires_at:
            key_rules.checked_expiry(wanted.expires_at, now)
        networks = tuple(key_rules.checked_networks(wanted.allowed_networks))
        changed = replace(wanted, name=checked_name(wanted.name), allowed_networks=networks)
        return _found(await keys.set_rules(connection, changed), key_id)


async def rotate_key(
    database: Database,
    project_id: str,
    key_id: str,
    now: Ms,
    *,
    overlap_days: int = key_rules.OVERLAP_DAYS,
    check: Callable[[ApiKey, Ms | None], None] = lambda _key, _expires_at: None,
) -> tuple[IssuedKey, ApiKey]:
    """A successor with the same name, scopes, limit, networks, shape and length of life; and the old key, which works
    for some more days. `check` sees the old key and the successor's expiry before anything is changed."""
    if not 0 <= overlap_days <= key_rules.LONGEST_OVERLAP_DAYS:
        raise Invalid(f"The old key works for 0 to {key_rules.LONGEST_OVERLAP_DAYS} more days.", param="overlap_days")
    async with database.transaction() as connection:
        old = _in_use(await keys.lock(connection, project_id, key_id), key_id)
        if old.rules is not None and old.rules.is_expired(now):
            raise Refusal(f"The key {key_id} has expired. Create a new one.", param="key_id")
        expires_at = key_rules.replaced_expiry(old.created_at, old.expires_at, now)
        check(old, expires_at)
        issued = await _issue(connection, SECRET_PREFIX, replace(old, created_at=now, expires_at=expires_at))
        ends = now + overlap_days * DAY
        ends = ends if old.expires_at is None else min(ends, old.expires_at)
        return issued, _found(await keys.set_rules(connection, replace(old, expires_at=ends)), key_id)


def _in_use(key: ApiKey | None, key_id: str) -> ApiKey:
    """A secret key that was not revoked."""
    key = _found(key, key_id)
    if key.kind != "secret":
        raise Refusal(
            "A public key ships inside an app and works on every phone: it has no expiry and no networks.",
            param="key_id",
        )
    if key.revoked_at is not None:
        raise Refusal(f"The key {key_id} was revoked. Create a new one.", param="key_id")
    return key


async def _issue(connection: Connection, prefix: str, new: ApiKey) -> IssuedKey:
    _check_rate(new.rate_limit)
    plaintext = prefix + "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
    key = replace(
        new,
        id=f"key_{secrets.token_hex(8)}",
        name=checked_name(new.name),
        hint=f"{prefix}…{plaintext[-4:]}",
        plaintext=plaintext if new.kind == "public" else None,
    )
    await keys.create(connection, key.project_id, key, hash_of(plaintext), list(key.allowed_networks) or None)
    return IssuedKey(key, plaintext)


def _check_rate(rate_limit: int) -> None:
    if not 1 <= rate_limit <= FASTEST:
        raise Invalid(f"A rate limit is from 1 to {FASTEST:,} requests a minute.", param="rate_limit")


def _found(key: ApiKey | None, key_id: str) -> ApiKey:
    return found(key, f"There is no key {key_id} in this project.", "key_id")
