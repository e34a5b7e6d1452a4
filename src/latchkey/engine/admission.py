"""What a request may do by its API key, and keys whose rules refused a request. `reads.py` looks keys up."""

from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from latchkey.database.pool import Database
from latchkey.domain.access.api_key import KeyRules, rules_of
from latchkey.domain.instants import Ms
from latchkey.engine.batch import Batch
from latchkey.engine.storage import keys
from latchkey.engine.storage.keys import RuledKey
from latchkey.engine.storage.read_rows import Admitted


# Structs, because one is created for every single request.
class Caller(Struct, frozen=True, gc=False):
    """The key a request came with; or the member of a project who sends it from the console."""

    # Of a member: the id of the account.
    key_id: str
    project_id: str
    app_id: str | None
    # The store of the key's app; None for a secret key.
    store: str | None
    # A key that ships inside an app, where anybody can read it. Every other key is secret.
    is_public: bool
    scopes: frozenset[str]
    # A secret key: the requests it may make in 60 seconds, and those of the last 60 seconds including this one's batch.
    # A public key: the requests that one user of the app may make, and None.
    rate_limit: int
    rate_used: int | None
    # When and from where the key works; None: always and from everywhere.
    rules: KeyRules | None = None
    # Whether its V2 replies are in the vendor's shape.
    wants_vendor_shape: bool = False
    # Of a member.
    email: str | None = None


class Limited(Struct, frozen=True, gc=False):
    """The key is valid, but its rate limit is used up for now."""

    caller: Caller
    retry_after_ms: int
    # Other processes have leases, which they hand back within this time: ask again after it. None: refused for certain.
    open_ms: int | None = None


# None: no such key, or a revoked one.
Verdict = Caller | Limited | None


def limited(caller: Caller, key: Admitted) -> Limited | None:
    if key.retry_after_us is None:
        return None
    open_ms = -(-key.open_us // 1000) if key.open_us is not None else None
    return Limited(caller, -(-key.retry_after_us // 1000), open_ms)


def caller_of(key: Admitted, used: int | None) -> Caller:
    return Caller(
        key.key_id,
        key.project_id,
        key.app_id,
        key.store,
        key.kind == "public",
        frozenset(key.scopes),
        key.rate_limit,
        used,
        rules_of(key.expires_at, key.allowed_networks),
        key.shape == "vendor",
    )


# Only keys that exist come in here. Past this many, the first ones are counted again.
_MOST = 1_000


class RefusedCaller(NamedTuple):
    # With its rules as they are now. None: the key was revoked.
    caller: Caller | None


class RefusedKeys:
    """Secret keys whose rules refused a request in this process: expired, or used from another network."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._callers: dict[bytes, Caller] = {}
        self._batch: Batch[bytes, RuledKey | None] = Batch(self._ask)

    def __bool__(self) -> bool:
        return bool(self._callers)

    def add(self, key_hash: bytes, caller: Caller) -> None:
        if len(self._callers) >= _MOST:
            self._callers.pop(next(iter(self._callers)))
        self._callers[key_hash] = caller

    async def refused(self, key_hash: bytes, address: str, now: Ms) -> RefusedCaller | None:
        """The key, if its rules refuse this request as they stand in the database now."""
        caller = self._callers.get(key_hash)
        if caller is None or caller.rules is None or caller.rules.allows(address, now):
            return None
        key = await self._batch.ask(key_hash)
        rules = key.rules if key is not None else None
        if rules is None:
            self._callers.pop(key_hash, None)
            return RefusedCaller(None) if key is None else None
        self._callers[key_hash] = caller = replace(caller, rules=rules)
        return None if rules.allows(address, now) else RefusedCaller(caller)

    async def _ask(self, hashes: list[bytes]) -> list[RuledKey | None]:
        found = await keys.rules_of_keys(self._database.hot, list(set(hashes)))
        return [found.get(key_hash) for key_hash in hashes]
