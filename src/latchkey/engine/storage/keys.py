"""API keys. Only the hash of a key and a hint are stored; of public keys, which are no secret, the key itself too."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from latchkey.database.pool import Connection, Executor
from latchkey.database.rows import fetch_all, fetch_one, fetches_all, fetches_one, finds_value, saves
from latchkey.database.sql import query
from latchkey.domain.access.api_key import KeyRules, rules_of
from latchkey.domain.instants import Ms
from latchkey.domain.leases import Lease

_PAGE = query("list_keys")

Kind = Literal["secret", "public"]
Scope = Literal["read", "write", "charts"]
# Of V2 replies: with our own fields, or as the vendor's clients expect them.
Shape = Literal["latchkey", "vendor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    id: str = ""
    project_id: str
    app_id: str | None = None
    kind: Kind
    name: str
    scopes: tuple[Scope, ...]
    hint: str = ""
    rate_limit: int
    created_at: Ms
    revoked_at: Ms | None = None
    # Of public keys only.
    plaintext: str | None = field(default=None, repr=False)
    # Of secret keys only. None: it does not expire. Empty: it works from everywhere.
    expires_at: Ms | None = None
    allowed_networks: tuple[str, ...] = ()
    shape: Shape = "latchkey"
    # To the minute. None: never, or it was not looked up.
    last_used_at: Ms | None = None

    @property
    def rules(self) -> KeyRules | None:
        return rules_of(self.expires_at, self.allowed_networks)


async def uses_of(connection: Connection, key_ids: Sequence[str]) -> dict[str, Ms]:
    if not key_ids:
        return {}
    return {row["key_id"]: row["used_at"] for row in await connection.fetch(query("load_key_uses"), list(key_ids))}


# With its hash, and its networks or None.
create = saves(
    query("create_key"),
    *("id", "app_id", "kind", "name", "scopes", "hint", "rate_limit", "created_at", "plaintext", "expires_at", "shape"),
)


async def page(
    connection: Connection, project_id: str, after: str | None, limit: int | None, kind: Kind | None, app_id: str | None
) -> list[ApiKey]:
    """Oldest first, including revoked ones; optionally of one kind or app."""
    found = await fetch_all(connection, ApiKey, _PAGE, project_id, after, limit, None, kind, app_id)
    uses = await uses_of(connection, [key.id for key in found])
    return [replace(key, last_used_at=uses.get(key.id)) for key in found]


async def load(connection: Executor, project_id: str, key_id: str) -> ApiKey | None:
    return await fetch_one(connection, ApiKey, _PAGE, project_id, None, 1, key_id, None, None)


# The key with this hash, unless it was revoked.
find = fetches_one(ApiKey, query("find_key"))
# The key of a project with this id, which nobody else can change until the transaction ends.
lock = fetches_one(ApiKey, query("lock_key"))
# Keys of all projects that expire between two instants, the first to expire first.
about_to_expire = fetches_all(ApiKey, query("keys_about_to_expire"))
# The store of a public key that was revoked or whose app was deleted, by the key's hash.
former_store = finds_value(str, query("former_key_store"))


async def revoke(connection: Connection, project_id: str, key_id: str, now: Ms) -> ApiKey | None:
    """Revoking twice keeps the first time. None: there is no such key."""
    return await _with_use(
        connection, await fetch_one(connection, ApiKey, query("revoke_key"), project_id, key_id, now)
    )


async def set_rules(connection: Connection, key: ApiKey) -> ApiKey | None:
    """Writes the key's name, rate limit, expiry and networks."""
    networks = list(key.allowed_networks) or None
    rules = key.name, key.rate_limit, key.expires_at, networks
    changed = await fetch_one(connection, ApiKey, query("set_key_rules"), key.project_id, key.id, *rules)
    return await _with_use(connection, changed)


class RuledKey(NamedTuple):
    key_id: str
    rules: KeyRules | None


async def rules_of_keys(connection: Executor, hashes: Sequence[bytes]) -> dict[bytes, RuledKey]:
    """By hash. Unknown and revoked keys are left out."""
    rows = await connection.fetch(query("rules_of_keys"), list(hashes))
    return {hash: RuledKey(id, rules_of(expires_at, networks)) for hash, id, expires_at, networks in rows}


async def hand_back(connection: Executor, key_hash: bytes, lease: Lease) -> None:
    """A lease that is over."""
    await connection.execute(query("hand_back"), key_hash, lease.left, lease.size, lease.run)


async def _with_use(connection: Connection, key: ApiKey | None) -> ApiKey | None:
    return replace(key, last_used_at=(await uses_of(connection, [key.id])).get(key.id)) if key is not None else None
