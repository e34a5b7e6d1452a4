"""Reading customers: reads that meet share one query, and nothing is kept but the parsed catalog of a known version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import asyncpg
from msgspec import Struct

from latchkey.domain.catalog import Catalog
from latchkey.domain.instants import Ms
from latchkey.storage import customers
from latchkey.storage.catalogs import Catalogs
from latchkey.storage.database import Database
from latchkey.storage.sql import query
from latchkey.usecases.batch import Batch
from latchkey.usecases.view import LastSeen, View

READ_CUSTOMERS = query("read_customers")


class Question(NamedTuple):
    """Whose customer: the project of the key with this hash, or a project that is already known."""

    key_hash: bytes | None
    project_id: str | None
    app_user_id: str


class Row(Struct, frozen=True):
    """A customer as it was read, not yet decoded."""

    key: int
    state: bytes
    catalog: Catalog
    clock_now: Ms | None
    last_seen: LastSeen

    def view(self, now: Ms) -> View:
        """Decoded for one request alone: a customer that cannot be decoded fails nobody else."""
        own_now = now if self.clock_now is None else self.clock_now
        return View(self.key, customers.decode(self.state), self.catalog, own_now, self.last_seen)


class Reader:
    def __init__(
        self, database: Database, catalogs: Catalogs, *, measure: Callable[[int], None] = lambda _: None
    ) -> None:
        self._database = database
        self._catalogs = catalogs
        self._batch: Batch[Question, Row | None] = Batch(
            self._ask,
            splits_on=(asyncpg.DataError,),
            measure=measure,
        )

    def read(self, question: Question) -> asyncio.Future[Row | None]:
        """The customer as committed at some moment after this call; None when there is none by that id."""
        return self._batch.ask(question)

    async def _ask(self, questions: list[Question]) -> list[Row | None]:
        async with self._database.acquire() as connection:
            rows = await connection.fetch(
                READ_CUSTOMERS,
                [question.key_hash for question in questions],
                [question.project_id for question in questions],
                [question.app_user_id for question in questions],
            )
            catalogs = {
                (project_id, version): await self._catalogs.at(connection, project_id, version)
                for project_id, version in {(row[0], row[1]) for row in rows if row[0] is not None}
            }
        return [
            Row(row[2], row[3], catalogs[row[0], row[1]], row[4], LastSeen(row[5], row[6], row[7], row[8], row[9]))
            if row[2] is not None
            else None
            for row in rows
        ]
