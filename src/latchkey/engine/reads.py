"""Reading customers, and authenticating requests. Concurrent ones share one query; only the parsed catalog of a known
version is cached.

A request with a key is counted, checked and answered in one round trip: the query finds each key's owner and counts the
requests of the key's last 60 seconds. A request that a lease covers (`leases.py`) is only checked and answered there. A
public key is not counted: all phones of an app share it (see `rate_limits.py`). The key is looked up for every request,
so a revoked key is refused at once; for receipts, which their store vouches for, within seconds.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from latchkey.database.errors import InvalidValueError, NodeAwayError
from latchkey.database.pool import Database
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer, LastSeen, own_now
from latchkey.domain.instants import Duration, Ms, add
from latchkey.domain.leases import LeaseCount
from latchkey.domain.refusal import found
from latchkey.engine.admission import Caller, Limited, Verdict, caller_of, limited
from latchkey.engine.batch import Batch
from latchkey.engine.due_transitions import at_present
from latchkey.engine.rate_limits import Leases
from latchkey.engine.storage import read_rows, state
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.read_rows import CachedKey, StoredRow
from latchkey.wire.v2 import LIFETIME_YEARS

# The hash of a key, and the id of a customer in the key's project. None: only authenticate the key.
KeyQuestion: TypeAlias = tuple[bytes, str | None]


class ReadResult(Struct, frozen=True, gc=False):
    verdict: Verdict
    row: StoredRow | None


_STRANGER = ReadResult(None, None)
# How long a receipt is taken with a public key that is not looked up again, and how many such keys are remembered.
_RECENT_SECONDS = 2.0
_MOST_RECENT = 1_000


class CustomerView(Struct, frozen=True, gc=False):
    """The input of rendering: a customer at an instant, with the catalog and the last visit."""

    # The key of the customer's row.
    key: int
    customer: Customer
    catalog: Catalog
    # The customer's current time: that of its test clock, if it is on one.
    now: Ms
    last_seen: LastSeen


class Reader:
    def __init__(
        self,
        database: Database,
        catalogs: Catalogs,
        leases: Leases | None = None,
        *,
        measure: Callable[[int], None] = lambda _: None,
        measure_keys: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._catalogs = catalogs
        self._leases = leases if leases is not None else Leases(database)
        # The keys that had a lease last, by their hash.
        self._known: dict[bytes, tuple[CachedKey, Caller]] = {}
        # Public keys that were looked up for a receipt, until when they count.
        self._recent: dict[bytes, tuple[float, Caller]] = {}
        # Errors that are about one question, or about the projects of one node.
        splits_on = (InvalidValueError, NodeAwayError)
        self._batch: Batch[tuple[str, str], StoredRow | None] = Batch(self._ask, splits_on=splits_on, measure=measure)
        # Split on errors like the other: the counts of a failed statement are rolled back with it.
        self._admitting: Batch[KeyQuestion, ReadResult] = Batch(self._admit, splits_on=splits_on, measure=measure)
        self._keys: Batch[KeyQuestion, ReadResult] = Batch(self._admit, splits_on=splits_on, measure=measure_keys)

    def read(self, project_id: str, app_user_id: str) -> asyncio.Future[StoredRow | None]:
        """The customer as committed at some moment after this call; None if there is none with that id."""
        return self._batch.ask((project_id, app_user_id))

    async def view(self, project_id: str, app_user_id: str, now: Ms) -> CustomerView:
        """The customer with this id, which may be any of their ids."""
        row = await self.read(project_id, app_user_id)
        return look_at(found(row, f"There is no customer {app_user_id!r}.", "customer_id"), now)

    async def admit(self, key_hash: bytes, app_user_id: str | None) -> ReadResult:
        """The same for a request with this key, and the verdict on the request. Counts as one request."""
        return await self._settled(self._admitting, (key_hash, app_user_id))

    async def authenticate(self, key_hash: bytes) -> Verdict:
        """The verdict on a request with this key. Counts as one request."""
        return (await self._settled(self._keys, (key_hash, None))).verdict

    async def authenticate_receipt(self, key_hash: bytes) -> Verdict:
        """The same for a receipt. All phones of an app send theirs with one public key."""
        now = asyncio.get_running_loop().time()
        until, caller = self._recent.get(key_hash, (now, None))
        if now < until:
            return caller
        verdict = await self.authenticate(key_hash)
        if isinstance(verdict, Caller) and verdict.is_public:
            if len(self._recent) >= _MOST_RECENT:
                self._recent.clear()
            self._recent[key_hash] = now + _RECENT_SECONDS, verdict
        return verdict

    async def _settled(self, batch: Batch[KeyQuestion, ReadResult], question: KeyQuestion) -> ReadResult:
        while True:
            answer = await batch.ask(question)
            verdict = answer.verdict
            if type(verdict) is not Limited or verdict.open_ms is None:
                return answer
            await self._leases.others(verdict.open_ms)

    async def _ask(self, questions: list[tuple[str, str]]) -> list[StoredRow | None]:
        async with self._database.at_hand() as connection:
            return await read_rows.read(connection, self._catalogs, questions)

    async def _admit(self, questions: list[KeyQuestion]) -> list[ReadResult]:
        leases, first = self._leases, questions[0][0]
        sent = leases.clock()
        of_key: Mapping[bytes, Sequence[int]] = {first: range(len(questions))}
        if any(key_hash != first for key_hash, _ in questions):
            of_key = _by_key(questions)
        counts = {key_hash: leases.plan(key_hash, len(indexes)) for key_hash, indexes in of_key.items()}
        try:
            known = self._known.get(first)
            if known is not None and len(counts) == 1 and not counts[first].wanted:
                caller = replace(known[1], rate_used=leases.used(first))
                async with self._database.at_hand() as connection:
                    rows = await read_rows.read_leased(connection, known[0], [id for _, id in questions])
                if rows is not None:
                    return [ReadResult(caller, row) for row in rows]
            return await self._counted(questions, of_key, counts, sent)
        except BaseException:
            for key_hash, count in counts.items():
                leases.fail(key_hash, count, len(of_key[key_hash]))
            raise

    async def _counted(
        self,
        questions: list[KeyQuestion],
        of_key: Mapping[bytes, Sequence[int]],
        counts: Mapping[bytes, LeaseCount],
        sent: float,
    ) -> list[ReadResult]:
        leases = self._leases
        covered = {key_hash: leases.used(key_hash) for key_hash, count in counts.items() if not count.wanted}
        order = [index for indexes in of_key.values() for index in indexes]
        async with self._database.at_hand() as connection:
            keys, rows = await read_rows.admit(
                connection,
                self._catalogs,
                counts,
                [len(indexes) for indexes in of_key.values()],
                [questions[index][1] for index in order],
            )
        answers = [_STRANGER] * len(questions)
        first = 0
        for (key_hash, indexes), answer in zip(of_key.items(), keys, strict=True):
            key, known = answer if answer is not None else (None, None)
            leases.learn(key_hash, counts[key_hash], sent, key)
            if key is not None:
                caller = caller_of(key, covered.get(key_hash, key.used))
                refused = limited(caller, key)
                # First come, first served.
                for number, index in enumerate(indexes):
                    answers[index] = ReadResult(caller if number < key.granted else refused, rows[first + number])
                if known is not None and (key.leased or key_hash in covered):
                    self._known[key_hash] = known, caller
            else:
                self._known.pop(key_hash, None)
            first += len(indexes)
        return answers


def _by_key(questions: Sequence[KeyQuestion]) -> dict[bytes, list[int]]:
    """The places of each key's questions."""
    of_key = defaultdict[bytes, list[int]](list)
    for index, (key_hash, _) in enumerate(questions):
        of_key[key_hash].append(index)
    return of_key


def look_at(row: StoredRow, now: Ms) -> CustomerView:
    """The customer including everything due by now, even if the clock role has not written it yet."""
    customer = state.decode(row.state)
    if row.clock_now is not None:
        now = own_now(customer, row.clock_now)
    if row.due_at is not None and row.due_at <= now:
        customer = at_present(customer, row.catalog, now)
    return CustomerView(row.key, customer, row.catalog, now, row.last_seen)


def view_for_reading(
    row: StoredRow, now: Ms, decode: Callable[[bytes], Customer] = state.decode_for_reading
) -> CustomerView:
    """The same for rendering only, and faster; see `state.decode_for_reading`."""
    if row.clock_now is not None or (row.due_at is not None and row.due_at <= now):
        return look_at(row, now)
    return CustomerView(row.key, decode(row.state), row.catalog, now, row.last_seen)


def view_for_v2(row: StoredRow, now: Ms) -> CustomerView:
    return view_for_reading(row, now, state.decode_for_v2)


_LIFETIME = Duration(months=12 * LIFETIME_YEARS)


# The same customers are read repeatedly.
@lru_cache(maxsize=4096)
def lifetime_end(purchased_at: Ms) -> Ms:
    return add(purchased_at, _LIFETIME)
