"""Authentication of API keys: the owner of a key, and how many requests its rate limit admits; and keys of before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_ADMIT = query("admit_requests")
_FORMER = query("former_key_stores")


# A struct, because one is created for every single request.
class Admitted(Struct, frozen=True, gc=False):
    """A key, and how many requests its rate limit admitted."""

    # How many of the requests are admitted, and when the next one would be; None if all are.
    granted: int
    retry_after_us: int | None
    # How many requests of the last 60 seconds are counted, and how many are allowed. A public key is not counted.
    used: int | None
    rate_limit: int
    key_id: str
    project_id: str
    app_id: str | None
    store: str | None
    kind: str
    scopes: list[str]


async def admit(connection: Connection, wanted: Mapping[bytes, int]) -> dict[bytes, Admitted]:
    """Counts requests, given by the hash of their key. Unknown and revoked keys are left out."""
    rows = await connection.fetch(_ADMIT, list(wanted), list(wanted.values()))
    return {
        key_hash: Admitted(granted, retry_after_us, used, rate_limit, key_id, project_id, app_id, store, kind, scopes)
        for key_hash, granted, retry_after_us, used, rate_limit, key_id, project_id, app_id, store, kind, scopes in rows
    }


async def former_stores(connection: Connection, hashes: Sequence[bytes]) -> dict[bytes, str]:
    """By hash, the store of each public key that was revoked or whose app was deleted."""
    return {row["hash"]: row["store"] for row in await connection.fetch(_FORMER, list(hashes))}
