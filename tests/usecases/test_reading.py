"""Reads with a key: one query admits, counts and answers all reads of the same moment."""

from __future__ import annotations

import asyncio
import hashlib

from latchkey.domain.customers.customer import newcomer
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.customers import records as customers
from latchkey.storage.database import Database
from latchkey.usecases.access.keys import create_secret_key
from latchkey.usecases.access.projects import create_project
from latchkey.usecases.engine.admission import Caller, Limited
from latchkey.usecases.engine.reading import Answer, Reader
from latchkey.usecases.rendering.view import look_at
from tests.databases import hold_minute

NOW = 1_767_960_000_000
STRANGER = hashlib.sha256(b"stranger").digest()


async def project_with(database: Database, name: str, *ids: str) -> str:
    project = await create_project(database, name, NOW)
    async with database.transaction() as connection:
        await customers.create(connection, [newcomer(project.id, id, NOW) for id in sorted(ids)])
    return project.id


async def key_of(database: Database, project_id: str, limit: int = 480) -> bytes:
    made = await create_secret_key(database, project_id, "reads", NOW, rate_limit=limit)
    return hashlib.sha256(made.plaintext.encode()).digest()


def shown(answer: Answer) -> tuple[str, str, str] | str:
    """The caller's project, and the customer that was read."""
    if not isinstance(answer.verdict, Caller):
        return type(answer.verdict).__name__
    if answer.row is None:
        return answer.verdict.project_id, "", ""
    seen = look_at(answer.row, NOW).customer
    return answer.verdict.project_id, seen.project_id, seen.app_user_id


async def test_a_crowd_of_many_keys_gets_each_its_own(database: Database) -> None:
    await hold_minute(database)
    one = await project_with(database, "One", "ada", "bob")
    two = await project_with(database, "Two", "ada")
    mine, other, scarce = (
        await key_of(database, one),
        await key_of(database, two),
        await key_of(database, two, limit=2),
    )
    batches: list[int] = []
    reader = Reader(database, Catalogs(), measure=batches.append)
    asked = [
        (mine, "ada"),
        (scarce, "ada"),
        (STRANGER, "ada"),
        (other, "ada"),
        (mine, "nobody"),
        (scarce, None),
        (other, "bob"),
        (mine, "bob"),
        (scarce, "ada"),
        (mine, "ada"),
    ]
    answers = await asyncio.gather(*(reader.admit(*question) for question in asked))
    assert [shown(answer) for answer in answers] == [
        (one, one, "ada"),
        (two, two, "ada"),
        "NoneType",
        (two, two, "ada"),
        (one, "", ""),
        (two, "", ""),
        (two, "", ""),
        (one, one, "bob"),
        "Limited",
        (one, one, "ada"),
    ]
    assert batches == [10]
    late = answers[8].verdict
    assert isinstance(late, Limited)
    assert late.retry_after_ms == 60_000
