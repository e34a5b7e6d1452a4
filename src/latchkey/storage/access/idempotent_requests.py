"""Requests with an Idempotency-Key, and their replies."""

from __future__ import annotations

from typing import NamedTuple

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection, Database
from latchkey.storage.sql import affected, query

_BEGIN = query("begin_idempotent_request")
_LOAD = query("load_idempotent_request")
_FINISH = query("finish_idempotent_request")
_PRUNE = query("prune_idempotent_requests")


class KnownRequest(NamedTuple):
    fingerprint: bytes
    started_at: Ms
    # None: it is under way, or its process has died.
    status: int | None
    # Encrypted. None beside a status: it failed, and may be carried out again.
    reply: bytes | None


async def begin(
    connection: Connection, id_hash: bytes, project_id: str, fingerprint: bytes, now: Ms, forgotten: Ms
) -> Ms | None:
    """When the request was first sent, if it is to be carried out now. None: `load` says why not."""
    created_at: Ms | None = await connection.fetchval(_BEGIN, id_hash, project_id, fingerprint, now, forgotten)
    return created_at


async def load(connection: Connection, id_hash: bytes) -> KnownRequest | None:
    row = await connection.fetchrow(_LOAD, id_hash)
    return KnownRequest(*row) if row is not None else None


async def finish(connection: Connection, id_hash: bytes, started_at: Ms, status: int, reply: bytes | None) -> None:
    await connection.execute(_FINISH, id_hash, started_at, status, reply)


async def prune(database: Database, before: Ms, *, at_once: int = 1_000) -> None:
    async with database.acquire() as connection:
        while affected(await connection.execute(_PRUNE, before, at_once)) == at_once:
            pass
