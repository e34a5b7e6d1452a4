"""Who is asking, and whether they may ask again yet.

One statement answers for every request that meets in the same tick: it names each key's owner and takes their requests
from the key's last 60 seconds. Nothing is remembered between requests, so a revoked key is refused at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Literal

from latchkey.storage.database import Database
from latchkey.storage.sql import query
from latchkey.usecases.batch import Batch

ADMIT_REQUESTS = query("admit_requests")

Scope = Literal["read", "write"]


@dataclass(frozen=True, slots=True)
class Caller:
    """The key a request came with."""

    key_id: str
    project_id: str
    app_id: str | None
    # The store of the key's app; None for a secret key.
    store: str | None
    # An app's key, which anybody can read out of the app; every other is secret.
    is_public: bool
    scopes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Limited:
    """The key is known, and has used up its requests for now."""

    caller: Caller
    retry_after_ms: int


# None: no such key, or a revoked one.
Verdict = Caller | Limited | None


class Admission:
    def __init__(self, database: Database, *, measure: Callable[[int], None] = lambda _: None) -> None:
        self._database = database
        self._batch: Batch[bytes, Verdict] = Batch(self._ask, largest=4096, measure=measure)

    def admit(self, key_hash: bytes) -> asyncio.Future[Verdict]:
        """The verdict on one request with this key. Every call counts as one request."""
        return self._batch.ask(key_hash)

    async def _ask(self, hashes: list[bytes]) -> list[Verdict]:
        wanted = Counter(hashes)
        async with self._database.acquire() as connection:
            rows = await connection.fetch(ADMIT_REQUESTS, list(wanted), list(wanted.values()))
        verdicts: dict[bytes, Iterator[Verdict]] = {}
        for key_hash, granted, retry_after_us, *key in rows:
            caller = caller_of(*key)
            refused = limited(caller, retry_after_us)
            # First come, first served.
            verdicts[key_hash] = chain(repeat(caller, granted), repeat(refused))
        return [next(verdicts[key_hash]) if key_hash in verdicts else None for key_hash in hashes]


def limited(caller: Caller, retry_after_us: int | None) -> Limited | None:
    return Limited(caller, -(-retry_after_us // 1000)) if retry_after_us is not None else None


def caller_of(
    key_id: str, project_id: str, app_id: str | None, store: str | None, kind: str, scopes: list[str]
) -> Caller:
    return Caller(key_id, project_id, app_id, store, kind == "public", frozenset(scopes))
