import asyncio
import gc

import pytest

from latchkey.database.errors import DatabaseUnreachableError
from latchkey.database.pool import Database
from latchkey.database_address import without_password
from tests.database.cable import cable


async def test_json_comes_out_and_goes_in_as_raw_bytes(database: Database) -> None:
    assert await database.pool.fetchval("select $1::json", b'{"a":  1}') == b'{"a":  1}'
    assert await database.pool.fetchval("select $1::json", '{"a":1}') == b'{"a":1}'
    rows = await database.pool.fetch("select * from unnest($1::json[]) as body", [b"1", b'"two"'])
    assert [row["body"] for row in rows] == [b"1", b'"two"']


async def test_time_outs_of_a_transaction_end_with_it(database_url: str) -> None:
    async with Database(database_url, max_size=1, statement_timeout_ms=7_000, lock_timeout_ms=3_000) as database:
        async with database.transaction(statement_timeout_ms=40, lock_timeout_ms=20) as connection:
            assert await connection.fetchval("show statement_timeout") == "40ms"
            assert await connection.fetchval("show lock_timeout") == "20ms"
        assert await database.pool.fetchval("show statement_timeout") == "7s"
        assert await database.pool.fetchval("show lock_timeout") == "3s"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://bob:hunter2@127.0.0.1:1/nowhere",
        "postgresql://bob:hunter2@localhost/nowhere?host=/nonexistent",
        "postgresql://bob:hunter2@no-such-host.invalid/nowhere",
    ],
)
async def test_an_unreachable_database_is_named_without_its_password(url: str) -> None:
    with pytest.raises(DatabaseUnreachableError) as refused:
        await Database(url).open()
    assert "nowhere" in str(refused.value)
    assert "LATCHKEY_DATABASE_URL" in str(refused.value)
    assert "hunter2" not in str(refused.value)


async def test_a_database_that_does_not_exist_is_unreachable(database_url: str) -> None:
    with pytest.raises(DatabaseUnreachableError, match="does not exist"):
        await Database(database_url.replace("/test_", "/no_such_")).open()


def test_an_address_is_shown_without_its_password() -> None:
    assert without_password("postgresql://bob:hunter2@db:5433/app") == "postgresql://bob@db:5433/app"
    assert without_password("postgresql:///app?host=/run/pg&password=hunter2") == "postgresql:///run/pg/app"
    assert "hunter2" not in without_password("host=db password=hunter2")


async def test_stopping_while_the_pools_close_leaves_no_error_behind(database_url: str) -> None:
    """A service that was stopped on a busy machine showed a traceback."""
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    async with cable(database_url) as held:
        database = Database(f"postgresql://postgres@127.0.0.1:{held.port}/{held.database}")
        await database.open()
        held.hold()
        closing = asyncio.create_task(database.close())
        await asyncio.wait({closing}, timeout=0.1)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        del closing
        gc.collect()
        await asyncio.sleep(0)
    assert reported == []
