"""Questions that meet share one query, and each gets its own answer."""

import asyncio
import hashlib

import pytest

from latchkey.database.pool import Database
from latchkey.domain.customers.customer import newcomer
from latchkey.engine.admission import Caller, Limited
from latchkey.engine.batch import Batch
from latchkey.engine.reads import Reader, ReadResult, look_at
from latchkey.engine.storage import records as customers
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.subjects.api_keys.usecases import create_secret_key
from latchkey.subjects.projects.usecases import create_project
from tests.databases import hold_minute


class Server:
    """Answers questions in batches and records them; holds each batch until `gate` is set."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def ask(self, questions: list[int]) -> list[int]:
        self.batches.append(questions)
        await self.gate.wait()
        if 13 in questions:
            raise LookupError("thirteen")
        return [question * 2 for question in questions]


async def test_questions_that_meet_share_one_query() -> None:
    server = Server()
    batch = Batch(server.ask)
    assert await asyncio.gather(*(batch.ask(n) for n in range(5))) == [0, 2, 4, 6, 8]
    assert server.batches == [[0, 1, 2, 3, 4]]


async def test_a_question_that_comes_later_waits_for_the_next_query_and_never_joins_one_under_way() -> None:
    server = Server()
    server.gate.clear()
    batch = Batch(server.ask)
    first = batch.ask(1)
    await asyncio.sleep(0.01)
    later = [batch.ask(2), batch.ask(3)]
    await asyncio.sleep(0.01)
    assert server.batches == [[1]]
    server.gate.set()
    assert await asyncio.gather(first, *later) == [2, 4, 6]
    assert server.batches == [[1], [2, 3]]


async def test_a_batch_that_is_stuck_does_not_hold_up_others_and_two_that_are_do() -> None:
    gates = {question: asyncio.Event() for question in (1, 4)}
    begun: list[int] = []

    async def ask(questions: list[int]) -> list[int]:
        begun.extend(questions)
        for question in gates.keys() & set(questions):
            await gates[question].wait()
        return questions

    batch = Batch(ask, stuck_after=0.05)
    stuck = batch.ask(1)
    await asyncio.sleep(0)
    # It has to wait until the first one counts as stuck, and the next one does not.
    assert await batch.ask(2) == 2
    third = batch.ask(3)
    for _ in range(3):
        await asyncio.sleep(0)
    assert begun == [1, 2, 3]
    await third
    second_stuck = batch.ask(4)
    await asyncio.sleep(0)
    last = batch.ask(5)
    await asyncio.sleep(0.1)
    assert begun == [1, 2, 3, 4]
    gates[4].set()
    assert await asyncio.gather(*[second_stuck, last]) == [4, 5]
    gates[1].set()
    assert await stuck == 1


async def test_a_crowd_is_cut_into_batches_of_the_largest_size() -> None:
    server = Server()
    batch = Batch(server.ask, largest=2)
    await asyncio.gather(*(batch.ask(n) for n in range(5)))
    assert server.batches == [[0, 1], [2, 3], [4]]


async def test_a_question_that_breaks_its_query_does_not_hurt_the_others() -> None:
    server = Server()
    batch = Batch(server.ask, splits_on=(LookupError,))
    asked = {n: batch.ask(n) for n in (11, 12, 13, 14, 15)}
    await asyncio.wait(asked.values())
    assert {n: future.result() for n, future in asked.items() if n != 13} == {11: 22, 12: 24, 14: 28, 15: 30}
    with pytest.raises(LookupError):
        asked[13].result()


async def test_when_the_server_fails_everybody_is_told_and_the_next_batch_goes_on() -> None:
    server = Server()
    batch = Batch(server.ask)
    asked = [batch.ask(13), batch.ask(14)]
    await asyncio.wait(asked)
    for future in asked:
        assert isinstance(future.exception(), LookupError)
    assert await batch.ask(1) == 2


async def test_whoever_hangs_up_is_not_asked_for() -> None:
    server = Server()
    batch = Batch(server.ask)
    gone, stays = batch.ask(1), batch.ask(2)
    gone.cancel()
    assert await stays == 4
    assert server.batches == [[2]]


async def test_too_few_answers_hang_nobody() -> None:
    async def forgetful(questions: list[int]) -> list[int]:
        return questions[:1]

    batch = Batch(forgetful)
    first, second = batch.ask(1), batch.ask(2)
    assert await first == 1
    with pytest.raises(ValueError):
        await second


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


def shown(answer: ReadResult) -> tuple[str, str, str] | str:
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
