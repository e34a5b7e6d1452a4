"""Reading customers. Concurrent reads share one query; only the parsed catalog of a known version is cached.

A read with a key is authenticated by the same query: it is counted, checked and answered in one round trip.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

from msgspec import Struct

from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.database import Database
from latchkey.storage.engine import reads
from latchkey.storage.engine.reads import Row as Row
from latchkey.storage.errors import InvalidValueError
from latchkey.usecases.engine.admission import Verdict, caller_of, limited
from latchkey.usecases.engine.batch import Batch


class Question(Struct, frozen=True, gc=False):
    project_id: str
    app_user_id: str


class KeyQuestion(Struct, frozen=True, gc=False):
    """A question about a customer in the project that the key with this hash belongs to."""

    key_hash: bytes
    # None: only authenticate the key.
    app_user_id: str | None


class Answer(Struct, frozen=True, gc=False):
    verdict: Verdict
    row: Row | None


_STRANGER = Answer(None, None)


class Reader:
    def __init__(
        self, database: Database, catalogs: Catalogs, *, measure: Callable[[int], None] = lambda _: None
    ) -> None:
        self._database = database
        self._catalogs = catalogs
        self._batch: Batch[Question, Row | None] = Batch(self._ask, splits_on=(InvalidValueError,), measure=measure)
        # Split on errors like the other: the counts of a failed statement are rolled back with it.
        self._admitting: Batch[KeyQuestion, Answer] = Batch(
            self._admit, splits_on=(InvalidValueError,), measure=measure
        )

    def read(self, project_id: str, app_user_id: str) -> asyncio.Future[Row | None]:
        """The customer as committed at some moment after this call; None if there is none with that id."""
        return self._batch.ask(Question(project_id, app_user_id))

    def admit(self, key_hash: bytes, app_user_id: str | None) -> asyncio.Future[Answer]:
        """The same for a request with this key, and the verdict on the request. Counts as one request."""
        return self._admitting.ask(KeyQuestion(key_hash, app_user_id))

    async def _ask(self, questions: list[Question]) -> list[Row | None]:
        async with self._database.acquire() as connection:
            return await reads.read(
                connection,
                self._catalogs,
                [question.project_id for question in questions],
                [question.app_user_id for question in questions],
            )

    async def _admit(self, questions: list[KeyQuestion]) -> list[Answer]:
        of_key: defaultdict[bytes, list[int]] = defaultdict(list)
        for index, question in enumerate(questions):
            of_key[question.key_hash].append(index)
        order = [index for indexes in of_key.values() for index in indexes]
        async with self._database.acquire() as connection:
            keys, rows = await reads.admit(
                connection,
                self._catalogs,
                list(of_key),
                [len(indexes) for indexes in of_key.values()],
                [questions[index].app_user_id for index in order],
            )
        answers = [_STRANGER] * len(questions)
        first = 0
        for indexes, key in zip(of_key.values(), keys, strict=True):
            if key is not None:
                caller = caller_of(key)
                refused = limited(caller, key.retry_after_us)
                # First come, first served.
                for number, index in enumerate(indexes):
                    answers[index] = Answer(caller if number < key.granted else refused, rows[first + number])
            first += len(indexes)
        return answers
