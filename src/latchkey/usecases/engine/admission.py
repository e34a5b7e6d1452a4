"""Authentication of requests by API key, and the key's rate limit.

One statement answers for all requests that come in the same tick: it finds each key's owner and counts the requests of
the key's last 60 seconds. A public key is not counted: all phones of an app share it (see `phone_limit.py`). Nothing is
cached between requests, so a revoked key is refused at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat

from latchkey.storage.access.keys import Scope as Scope
from latchkey.storage.database import Database
from latchkey.storage.engine import admission
from latchkey.storage.engine.admission import Admitted
from latchkey.storage.engine.reads import AdmittedForReads
from latchkey.usecases.engine.batch import Batch


@dataclass(frozen=True, slots=True)
class Caller:
    """The key a request came with."""

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


@dataclass(frozen=True, slots=True)
class Limited:
    """The key is valid, but its rate limit is used up for now."""

    caller: Caller
    retry_after_ms: int


# None: no such key, or a revoked one.
Verdict = Caller | Limited | None


class Admission:
    def __init__(self, database: Database, *, measure: Callable[[int], None] = lambda _: None) -> None:
        self._database = database
        self._batch: Batch[bytes, Verdict] = Batch(self._ask, largest=4096, measure=measure)
        self._former: Batch[bytes, str | None] = Batch(self._ask_former, largest=4096)

    def admit(self, key_hash: bytes) -> asyncio.Future[Verdict]:
        """The verdict on one request with this key. Every call counts as one request."""
        return self._batch.ask(key_hash)

    def former_store(self, key_hash: bytes) -> asyncio.Future[str | None]:
        """The store of a public key that was revoked or whose app was deleted. None: there was no such key."""
        return self._former.ask(key_hash)

    async def _ask(self, hashes: list[bytes]) -> list[Verdict]:
        wanted = Counter(hashes)
        async with self._database.acquire() as connection:
            admitted = await admission.admit(connection, wanted)
        verdicts: dict[bytes, Iterator[Verdict]] = {}
        for key_hash, one in admitted.items():
            caller = caller_of(one)
            refused = limited(caller, one.retry_after_us)
            # First come, first served.
            verdicts[key_hash] = chain(repeat(caller, one.granted), repeat(refused))
        return [next(verdicts[key_hash]) if key_hash in verdicts else None for key_hash in hashes]

    async def _ask_former(self, hashes: list[bytes]) -> list[str | None]:
        async with self._database.acquire() as connection:
            found = await admission.former_stores(connection, list(set(hashes)))
        return [found.get(key_hash) for key_hash in hashes]


def limited(caller: Caller, retry_after_us: int | None) -> Limited | None:
    return Limited(caller, -(-retry_after_us // 1000)) if retry_after_us is not None else None


def caller_of(key: Admitted | AdmittedForReads) -> Caller:
    return Caller(
        key.key_id,
        key.project_id,
        key.app_id,
        key.store,
        key.kind == "public",
        frozenset(key.scopes),
        key.rate_limit,
        key.used,
    )
