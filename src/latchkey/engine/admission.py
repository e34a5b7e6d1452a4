"""Authentication of requests by API key, and the key's rate limit.

One statement answers for all requests that come in the same tick: it finds each key's owner and counts the requests of
the key's last 60 seconds, unless a lease covers them (`leases.py`). A public key is not counted: all phones of an app
share it (see `recent_counts.py`). The key is looked up for every request, so a revoked key is refused at once.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from latchkey.database.pool import Database
from latchkey.domain.access.api_key import KeyRules, rules_of
from latchkey.domain.instants import Ms
from latchkey.engine.batch import Batch
from latchkey.engine.rate_limits import Leases
from latchkey.engine.storage import admissions
from latchkey.engine.storage.admissions import Admitted, RuledKey
from latchkey.engine.storage.read_rows import AdmittedForReads


# Structs, because one is created for every single request.
class Caller(Struct, frozen=True, gc=False):
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
    # When and from where the key works; None: always and from everywhere.
    rules: KeyRules | None = None
    # Whether its V2 replies are in the vendor's shape.
    wants_vendor_shape: bool = False


class Limited(Struct, frozen=True, gc=False):
    """The key is valid, but its rate limit is used up for now."""

    caller: Caller
    retry_after_ms: int
    # Other processes have leases, which they hand back within this time: ask again after it. None: refused for certain.
    open_ms: int | None = None


# None: no such key, or a revoked one.
Verdict = Caller | Limited | None


class Admission:
    def __init__(
        self, database: Database, leases: Leases | None = None, *, measure: Callable[[int], None] = lambda _: None
    ) -> None:
        self._database = database
        self._leases = leases if leases is not None else Leases(database)
        # The keys that had a lease last, by their hash: the version of the key's row, and the key.
        self._known: dict[bytes, tuple[int, Caller]] = {}
        self._batch: Batch[bytes, Verdict] = Batch(self._ask, largest=4096, measure=measure)
        self._former: Batch[bytes, str | None] = Batch(self._ask_former, largest=4096)

    async def admit(self, key_hash: bytes) -> Verdict:
        """The verdict on one request with this key. Every call counts as one request."""
        while True:
            verdict = await self._batch.ask(key_hash)
            if type(verdict) is not Limited or verdict.open_ms is None:
                return verdict
            await self._leases.others(verdict.open_ms)

    def former_store(self, key_hash: bytes) -> asyncio.Future[str | None]:
        """The store of a public key that was revoked or whose app was deleted. None: there was no such key."""
        return self._former.ask(key_hash)

    async def _ask(self, hashes: list[bytes]) -> list[Verdict]:
        leases, wanted = self._leases, Counter(hashes)
        sent = leases.clock()
        counts = {key_hash: leases.plan(key_hash, amount) for key_hash, amount in wanted.items()}
        used = {key_hash: leases.used(key_hash) for key_hash, count in counts.items() if not count.wanted}
        try:
            async with self._database.at_hand() as connection:
                known = self._known.get(hashes[0])
                if known is not None and len(counts) == len(used) == 1:
                    version, caller = known
                    if await admissions.is_as_known(connection, hashes[0], version):
                        return [replace(caller, rate_used=used[hashes[0]])] * len(hashes)
                admitted = await admissions.admit(connection, counts)
        except BaseException:
            for key_hash, count in counts.items():
                leases.fail(key_hash, count, wanted[key_hash])
            raise
        verdicts: dict[bytes, Iterator[Verdict]] = {}
        for key_hash, count in counts.items():
            one = admitted.get(key_hash)
            leases.learn(key_hash, count, sent, one)
            if one is None:
                self._known.pop(key_hash, None)
                continue
            caller = caller_of(one, used.get(key_hash, one.used))
            if one.leased or key_hash in used:
                self._known[key_hash] = one.revision, caller
            refused = limited(caller, one)
            # First come, first served.
            granted = one.granted if count.wanted else wanted[key_hash]
            verdicts[key_hash] = chain(repeat(caller, granted), repeat(refused))
        return [next(verdicts[key_hash]) if key_hash in verdicts else None for key_hash in hashes]

    async def _ask_former(self, hashes: list[bytes]) -> list[str | None]:
        async with self._database.at_hand() as connection:
            found = await admissions.former_stores(connection, list(set(hashes)))
        return [found.get(key_hash) for key_hash in hashes]


def limited(caller: Caller, key: Admitted | AdmittedForReads) -> Limited | None:
    if key.retry_after_us is None:
        return None
    open_ms = -(-key.open_us // 1000) if key.open_us is not None else None
    return Limited(caller, -(-key.retry_after_us // 1000), open_ms)


def caller_of(key: Admitted | AdmittedForReads, used: int | None) -> Caller:
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


# Secret keys whose rules refused a request in this process: expired, or used from another network.


# Only keys that exist come in here. Past this many, the first ones are counted again.
_MOST = 1_000


class RefusedCaller(NamedTuple):
    # With its rules as they are now. None: the key was revoked.
    caller: Caller | None


class RefusedKeys:
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
        async with self._database.at_hand() as connection:
            found = await admissions.rules_of_keys(connection, list(set(hashes)))
        return [found.get(key_hash) for key_hash in hashes]
