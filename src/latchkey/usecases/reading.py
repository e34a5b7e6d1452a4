"""Reading customers: reads that meet share one query, and nothing is kept but the parsed catalog of a known version.

A read that brings a key is admitted by the same query, so it is counted, checked and answered in one round trip.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

import asyncpg
from msgspec import Struct, json

from latchkey.domain.catalog import Catalog
from latchkey.domain.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.storage import customers
from latchkey.storage.catalogs import Catalogs
from latchkey.storage.database import Database
from latchkey.storage.sql import query
from latchkey.usecases.admission import Verdict, caller_of, limited
from latchkey.usecases.batch import Batch
from latchkey.usecases.passing_time import at_present
from latchkey.usecases.view import LastSeen, View

READ_CUSTOMERS = query("read_customers")
ADMIT_READS = query("admit_reads")


class Row(Struct, frozen=True, gc=False):
    """A customer as it was read, not yet decoded."""

    key: int
    state: bytes
    catalog: Catalog
    clock_now: Ms | None
    # When time alone will next change the customer, as of the last change.
    due_at: Ms | None
    last_seen: LastSeen

    def view(self, now: Ms) -> View:
        """Decoded for one request alone: a customer that cannot be decoded fails nobody else."""
        return self._view(customers.decode, now)

    def glance(self, now: Ms) -> View:
        """The same for whoever only renders it."""
        return self._view(customers.glance, now)

    def _view(self, decode: Callable[[bytes], Customer], now: Ms) -> View:
        """The customer as time has it: what fell due happened, though the clock role may not have written it yet."""
        own_now = now if self.clock_now is None else self.clock_now
        if self.due_at is None or self.due_at > own_now:
            customer = decode(self.state)
        else:
            customer = at_present(customers.decode(self.state), self.catalog, own_now)
        return View(self.key, customer, self.catalog, own_now, self.last_seen)


class Question(Struct, frozen=True, gc=False):
    project_id: str
    app_user_id: str


class KeyQuestion(Struct, frozen=True, gc=False):
    """Of the project that the key with this hash belongs to."""

    key_hash: bytes
    # None asks about the key alone.
    app_user_id: str | None


class Answer(Struct, frozen=True, gc=False):
    verdict: Verdict
    row: Row | None


_STRANGER = Answer(None, None)


class _Said(Struct, frozen=True, array_like=True):
    """What the database says of a key."""

    granted: int
    retry_after_us: int | None
    catalog_version: int
    key_id: str
    project_id: str
    app_id: str | None
    store: str | None
    kind: str
    scopes: list[str]


_SAID = json.Decoder(_Said)


class _Key(Struct, frozen=True):
    admitted: Verdict
    refused: Verdict
    # The last place that the rate limit lets through.
    last: int
    catalog: Catalog


class Reader:
    def __init__(
        self, database: Database, catalogs: Catalogs, *, measure: Callable[[int], None] = lambda _: None
    ) -> None:
        self._database = database
        self._catalogs = catalogs
        self._batch: Batch[Question, Row | None] = Batch(self._ask, splits_on=(asyncpg.DataError,), measure=measure)
        # Split like the other: what a failed statement has counted is counted no more.
        self._admitting: Batch[KeyQuestion, Answer] = Batch(
            self._admit, splits_on=(asyncpg.DataError,), measure=measure
        )

    def read(self, project_id: str, app_user_id: str) -> asyncio.Future[Row | None]:
        """The customer as committed at some moment after this call; None when there is none by that id."""
        return self._batch.ask(Question(project_id, app_user_id))

    def admit(self, key_hash: bytes, app_user_id: str | None) -> asyncio.Future[Answer]:
        """The same for whoever comes with this key, and the verdict on the request, which this counts."""
        return self._admitting.ask(KeyQuestion(key_hash, app_user_id))

    async def _ask(self, questions: list[Question]) -> list[Row | None]:
        async with self._database.acquire() as connection:
            rows = await connection.fetch(
                READ_CUSTOMERS,
                [question.project_id for question in questions],
                [question.app_user_id for question in questions],
            )
            catalogs = {
                (project_id, version): await self._catalogs.at(connection, project_id, version)
                for project_id, version in {(row[0], row[1]) for row in rows if row[0] is not None}
            }
        return [
            Row(row[2], row[3], catalogs[row[0], row[1]], row[4], row[5], LastSeen(*row[6:11]))
            if row[2] is not None
            else None
            for row in rows
        ]

    async def _admit(self, questions: list[KeyQuestion]) -> list[Answer]:
        of_key: defaultdict[bytes, list[int]] = defaultdict(list)
        for index, question in enumerate(questions):
            of_key[question.key_hash].append(index)
        order = [index for indexes in of_key.values() for index in indexes]
        amounts = [len(indexes) for indexes in of_key.values()]
        firsts = [sum(amounts[:n]) for n in range(len(amounts))]
        async with self._database.acquire() as connection:
            rows = await connection.fetch(
                ADMIT_READS, list(of_key), firsts, amounts, [questions[index].app_user_id for index in order]
            )
            keys: dict[bytes, _Key] = {}
            for row in rows:
                if row[10] is not None:
                    said = _SAID.decode(row[10])
                    caller = caller_of(said.key_id, said.project_id, said.app_id, said.store, said.kind, said.scopes)
                    catalog = await self._catalogs.at(connection, caller.project_id, said.catalog_version)
                    last = row[0] + said.granted - 1
                    keys[questions[order[row[0] - 1]].key_hash] = _Key(
                        caller, limited(caller, said.retry_after_us), last, catalog
                    )
        answers = [_STRANGER] * len(questions)
        for place, row_key, state, clock_now, due_at, at, platform, platform_version, app_version, country, _ in rows:
            index = order[place - 1]
            key = keys[questions[index].key_hash]
            # First come, first served.
            verdict = key.admitted if place <= key.last else key.refused
            if row_key is None:
                answers[index] = Answer(verdict, None)
            else:
                seen = LastSeen(at, platform, platform_version, app_version, country)
                answers[index] = Answer(verdict, Row(row_key, state, key.catalog, clock_now, due_at, seen))
        return answers
