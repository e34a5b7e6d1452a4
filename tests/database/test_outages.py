import asyncpg
import pytest

from latchkey.database.errors import DatabaseUnreachableError, OutageError, StatementRefusedError, StorageError
from latchkey.database.pool import Database
from latchkey.database.transient_errors import transaction, translates_errors


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (OSError("no route"), OutageError),
        (TimeoutError(), OutageError),
        (ConnectionResetError(), OutageError),
        (asyncpg.ConnectionDoesNotExistError("the driver says so"), OutageError),
        (asyncpg.InterfaceError("connection is closed"), OutageError),
        (asyncpg.AdminShutdownError("the driver says so"), OutageError),
        (asyncpg.CannotConnectNowError("the driver says so"), OutageError),
        (asyncpg.TooManyConnectionsError("the driver says so"), OutageError),
        (asyncpg.DiskFullError("the driver says so"), OutageError),
        (asyncpg.PostgresSystemError("the disk is broken"), OutageError),
        (asyncpg.ReadOnlySQLTransactionError("this is a standby"), OutageError),
        (asyncpg.DeadlockDetectedError("the driver says so"), OutageError),
        (asyncpg.LockNotAvailableError("the driver says so"), OutageError),
        (asyncpg.QueryCanceledError("the driver says so"), OutageError),
        (DatabaseUnreachableError("nobody answers"), DatabaseUnreachableError),
        (asyncpg.DataError("not a number"), StatementRefusedError),
        (asyncpg.CharacterNotInRepertoireError("the driver says so"), StatementRefusedError),
        (asyncpg.UniqueViolationError("the driver says so"), StatementRefusedError),
        (KeyError("ours"), KeyError),
    ],
    ids=lambda one: one.__name__ if isinstance(one, type) else type(one).__name__,
)
async def test_a_driver_error_becomes_an_outage_or_a_refusal(raised: Exception, seen: type[Exception]) -> None:
    @translates_errors
    async def storing() -> None:
        raise raised

    with pytest.raises(seen) as found:
        await storing()
    assert type(found.value) is seen
    if isinstance(found.value, StorageError):
        assert str(found.value), "an error says something, even if what was raised did not"


async def test_a_refused_statement_in_a_transaction_is_translated_and_rolled_back(database: Database) -> None:
    await database.pool.execute("create table kept (id integer)")

    async def work() -> None:
        async with transaction(database) as connection:
            await connection.execute("insert into kept values (1)")
            await connection.fetchval("select 1 / 0")

    with pytest.raises(StatementRefusedError, match="division by zero"):
        await work()
    assert await database.pool.fetchval("select count(*) from kept") == 0


async def test_a_connection_that_is_cut_in_a_transaction_is_an_outage(database: Database) -> None:
    async def work() -> None:
        async with transaction(database) as connection:
            pid = await connection.fetchval("select pg_backend_pid()")
            await database.pool.execute("select pg_terminate_backend($1::integer)", pid)
            await connection.execute("select 1")

    with pytest.raises(OutageError):
        await work()
