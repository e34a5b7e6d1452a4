"""Authentication of API keys: the owner of a key, and how many requests its rate limit admits; and keys of before."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from latchkey.database.pool import Connection
from latchkey.database.sql import query
from latchkey.domain.access.api_key import KeyRules, rules_of
from latchkey.domain.leases import Lease, LeaseCount

_ADMIT = query("admit_requests")
_ADMIT_WITH_LEASES = query("admit_with_leases")
_AS_KNOWN = query("key_as_known")
_RULES = query("rules_of_keys")
_HAND_BACK = query("hand_back")
_FORMER = query("former_key_stores")


# A struct, because one is created for every single request.
class Admitted(Struct, frozen=True, gc=False):
    """A key, and how many requests its rate limit admitted."""

    # How many of the requests are admitted, and when the next one would be; None if all are.
    granted: int
    retry_after_us: int | None
    # How many requests of the last 60 seconds are counted; None if none was counted now.
    used: int | None
    # Requests were refused while processes have leases, which they hand back within this time.
    open_us: int | None
    rate_limit: int
    # Of the key's row.
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


class RuledKey(NamedTuple):
    key_id: str
    rules: KeyRules | None


async def admit(connection: Connection, counts: Mapping[bytes, LeaseCount]) -> dict[bytes, Admitted]:
    """Counts requests, given by the hash of their key. Unknown and revoked keys are left out."""
    if without_leases(counts.values()):
        rows = await connection.fetch(_ADMIT, list(counts), [one.wanted for one in counts.values()])
    else:
        rows = await connection.fetch(_ADMIT_WITH_LEASES, list(counts), *columns(counts.values()))
    return {row[0]: Admitted(*row[1:]) for row in map(tuple, rows)}


async def is_as_known(connection: Connection, key_hash: bytes, revision: int) -> bool:
    """Whether the key exists and its row has not changed."""
    return bool(await connection.fetchval(_AS_KNOWN, key_hash, revision))


async def rules_of_keys(connection: Connection, hashes: Sequence[bytes]) -> dict[bytes, RuledKey]:
    """By hash. Unknown and revoked keys are left out."""
    rows = await connection.fetch(_RULES, list(hashes))
    return {hash: RuledKey(id, rules_of(expires_at, networks)) for hash, id, expires_at, networks in rows}


def without_leases(counts: Iterable[LeaseCount]) -> bool:
    return all(one.without_leases for one in counts)


def columns(counts: Collection[LeaseCount]) -> tuple[list[int], list[int], list[int], list[int], list[int | None]]:
    """As the statements take them."""
    return (
        [one.wanted for one in counts],
        [one.ahead for one in counts],
        [one.back for one in counts],
        [one.settled for one in counts],
        [one.run for one in counts],
    )


async def hand_back(connection: Connection, key_hash: bytes, lease: Lease) -> None:
    """A lease that is over."""
    await connection.execute(_HAND_BACK, key_hash, lease.left, lease.size, lease.run)


async def former_stores(connection: Connection, hashes: Sequence[bytes]) -> dict[bytes, str]:
    """By hash, the store of each public key that was revoked or whose app was deleted."""
    return {row["hash"]: row["store"] for row in await connection.fetch(_FORMER, list(hashes))}
