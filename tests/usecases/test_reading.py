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
from latchkey.usecases.engine.admission import Admission, Caller, Limited
from latchkey.usecases.engine.reading import Answer, Reader
from latchkey.usecases.rendering.view import look_at
from latchkey.usecases.sandbox.demo import add_catalog
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


async def test_reads_and_other_requests_share_one_limit(database: Database) -> None:
    await hold_minute(database)
    project = await project_with(database, "One", "ada")
    key = await key_of(database, project, limit=100)
    readers, admission = [Reader(database, Catalogs()) for _ in range(3)], Admission(database)
    answers = await asyncio.gather(*(reader.admit(key, "ada") for _ in range(30) for reader in readers))
    verdicts = [answer.verdict for answer in answers]
    verdicts += await asyncio.gather(*(admission.admit(key) for _ in range(30)))
    assert sum(isinstance(verdict, Caller) for verdict in verdicts) == 100
    assert sum(isinstance(verdict, Limited) for verdict in verdicts) == 20


async def test_a_key_is_gone_and_a_catalog_is_new_with_the_very_next_question(database: Database) -> None:
    project = await project_with(database, "One", "ada")
    key = await key_of(database, project)
    reader = Reader(database, Catalogs())
    before = (await reader.admit(key, "ada")).row
    await add_catalog(database, project, NOW)
    after = (await reader.admit(key, "ada")).row
    assert before is not None
    assert after is not None
    assert "pro_monthly" in after.catalog.products.keys() - before.catalog.products.keys()
    async with database.acquire() as connection:
        await connection.execute("update api_keys set revoked_at = 1")
    assert await reader.admit(key, "ada") == Answer(None, None)
