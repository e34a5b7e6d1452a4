"""Requests that are carried out once, however often they are sent with the same Idempotency-Key.

The reply is stored before it is sent, encrypted, because it may show a new secret. The change and its reply are two
transactions. A process that dies between them leaves a request without a reply: whether it took effect is not known,
so it is never carried out again, and whoever repeats it is told. A request that failed (5xx), or was refused for its
key, is carried out again when it is repeated. `operation_id` stays the same then, for changes that have an id of their
own, such as credits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

from latchkey.delivery.sealing import Sealer
from latchkey.domain.instants import DAY, MINUTE, Ms
from latchkey.storage.access import idempotent_requests as storage
from latchkey.storage.database import Database

KEPT: Ms = DAY
# No request takes this long. One without a reply after it has lost its process.
LONGEST: Ms = 2 * MINUTE
# About the key, not about what was asked.
_NOT_KEPT = frozenset({401, 403, 429})


@dataclass(frozen=True, slots=True)
class Begun:
    """The caller carries the request out, and then calls `finish`."""

    id_hash: bytes
    started_at: Ms
    operation_id: str


@dataclass(frozen=True, slots=True)
class Replayed:
    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """`reused`: the key was used for another request. `under_way`: ask again. Otherwise the outcome is not known."""

    reused: bool = False
    under_way: bool = False


class Idempotency:
    def __init__(self, database: Database, sealer: Sealer, now: Callable[[], Ms]) -> None:
        self._database = database
        self._sealer = sealer
        self._now = now

    async def begin(self, project_id: str, key_id: str, key: bytes, request: bytes) -> Begun | Replayed | Refused:
        """`request` is all that must be the same when the key is sent again."""
        id_hash, fingerprint = sha256(key_id.encode() + b"\0" + key).digest(), sha256(request).digest()
        now, known = self._now(), None
        while known is None:
            async with self._database.acquire() as connection:
                first = await storage.begin(connection, id_hash, project_id, fingerprint, now, now - KEPT)
                if first is not None:
                    return Begun(id_hash, now, str(UUID(bytes=sha256(b"%b %d" % (id_hash, first)).digest()[:16])))
                # None only if it was pruned just now.
                known = await storage.load(connection, id_hash)
        if known.fingerprint != fingerprint:
            return Refused(reused=True)
        if known.status is None or known.reply is None:
            return Refused(under_way=known.status is not None or now - known.started_at < LONGEST)
        return Replayed(known.status, self._sealer.unseal(known.reply, _place(id_hash)).encode())

    async def finish(self, begun: Begun, status: int, body: bytes) -> None:
        kept = status < 500 and status not in _NOT_KEPT
        reply = self._sealer.seal(body.decode(), _place(begun.id_hash)) if kept else None
        async with self._database.acquire() as connection:
            await storage.finish(connection, begun.id_hash, begun.started_at, status, reply)


def _place(id_hash: bytes) -> str:
    return f"idempotent_requests/{id_hash.hex()}"
