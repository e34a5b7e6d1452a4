"""API keys as a request brings them: who a key belongs to, and how many requests its rate limit lets through."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_ADMIT = query("admit_requests")


# A struct, because it is made for every request that comes alone.
class Admitted(Struct, frozen=True, gc=False):
    """A key, and what some requests have taken from its rate limit."""

    # How many of them are let through, and when the next one is; None if all are.
    granted: int
    retry_after_us: int | None
    key_id: str
    project_id: str
    app_id: str | None
    store: str | None
    kind: str
    scopes: list[str]


async def admit(connection: Connection, wanted: Mapping[bytes, int]) -> dict[bytes, Admitted]:
    """Counts requests, given by the hash of their key. A key that is unknown or revoked is left out."""
    rows = await connection.fetch(_ADMIT, list(wanted), list(wanted.values()))
    return {key_hash: Admitted(*admitted) for key_hash, *admitted in rows}
