"""The consumer's database with several hosts in its address. tests/failover has real failovers."""

from __future__ import annotations

import pytest

from latchkey.consumer.storage.database import Database, checked_url
from latchkey.consumer.storage.primary import Primary
from latchkey.database_address import parse
from tests.storage.cable import cable


async def ask(database: Database) -> object:
    async with database.writing() as connection:
        [row] = await database.fetch(connection, "select $1::integer", (7,))
        return row[0]


async def test_a_host_that_hangs_or_is_gone_does_not_keep_it_from_the_other(postgres_url: str) -> None:
    async with cable(postgres_url) as dead, cable(postgres_url) as alive:
        dead.hold()
        url = f"postgresql://postgres@127.0.0.1:{dead.port},127.0.0.1:1,127.0.0.1:{alive.port}/{dead.database}"
        database = Database(url)
        try:
            assert await ask(database) == 7
            alive.cut()
            assert await database.write(lambda connection: database.fetch(connection, "select $1::integer", (8,)))
        finally:
            await database.close()


async def test_an_old_primary_is_never_used(postgres_url: str) -> None:
    class Connection:
        def __init__(self, timeline: int) -> None:
            self.timeline = timeline
            self.ended = False

        async def fetchval(self, _: str) -> int:
            return self.timeline

        def terminate(self) -> None:
            self.ended = True

    timelines, made = {"postgresql://a/x": 2, "postgresql://b/x": 1}, list[Connection]()

    async def connect(url: str, **_: object) -> Connection:
        if url not in timelines:
            raise ConnectionRefusedError
        made.append(Connection(timelines[url]))
        return made[-1]

    primary = Primary(parse("postgresql://b,a/x"), connect)
    assert (await primary.connect({})).timeline == 2
    del timelines["postgresql://a/x"]
    with pytest.raises(ConnectionError, match="is the primary"):
        await primary.connect({})
    timelines["postgresql://b/x"] = 3
    assert (await primary.connect({})).timeline == 3
    assert [one.timeline for one in made if not one.ended] == [2, 3]


def test_an_address_that_cannot_work_is_refused_without_its_password() -> None:
    for url in ("postgresql://bob:hunter2@a,,b/x", "postgresql://bob:hunter2@a,b/x?target_session_attrs=standby"):
        with pytest.raises(ValueError, match=r"empty|read-write") as refused:
            checked_url(url)
        assert "hunter2" not in str(refused.value)
