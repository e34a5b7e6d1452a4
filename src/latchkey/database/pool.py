"""The two pools of connections, and the session settings of every connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from latchkey.database.database_identity import follow
from latchkey.database.distribution.connection import Cluster
from latchkey.database.errors import DatabaseUnreachableError, NoPrimaryError, WrongAddressError
from latchkey.database.primary import Primary
from latchkey.database.servers import IN_TRANSACTION_MODE, MIXED_UP
from latchkey.database.sticky_connections import IDLE_SECONDS, AtHand, HeldConnection
from latchkey.database_address import parse, without_password

Record = asyncpg.Record
# asyncpg's classes are generic only for the type checker, hence the quotes.
Connection: TypeAlias = "PoolConnectionProxy[asyncpg.Record] | asyncpg.Connection[asyncpg.Record]"
# Where one statement runs: on this connection and in its transaction, or on any connection of the database or of its
# hot pool.
Executor: TypeAlias = "PoolConnectionProxy[asyncpg.Record] | asyncpg.Connection[asyncpg.Record] | Database | AtHand"
Isolation = Literal["read_committed", "repeatable_read", "serializable"]

# What asyncpg raises for an address that is malformed, and when there is no such database or user.
_WRONG = (asyncpg.InvalidCatalogNameError, asyncpg.InvalidAuthorizationSpecificationError, ValueError, *MIXED_UP)
# And when there is no server, or the server is starting or stopping.
_UNREACHABLE = (
    *_WRONG,
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InterfaceError,
    NoPrimaryError,
)
_NOT_OPEN = "The database is not open. Call `await database.open()` first."
_KINDS = ((NoPrimaryError, NoPrimaryError), (_WRONG, WrongAddressError))


class PoolUsage(NamedTuple):
    most: int
    in_use: int
    idle: int
    # Callers that wait for a connection.
    waiting: int


class Database:
    """Connections to one PostgreSQL: to the primary, if the address names several hosts.

    There are two pools, each with half of the connections. `at_hand`, and transactions that change customers (`hot`),
    use the first: short statements that run thousands of times and look up every row by an index. The settings of its
    sessions say so to PostgreSQL. Everything else is planned as PostgreSQL sees fit.

    `json` columns are raw bytes in both directions: the module that knows the type decodes them, once, in one pass.
    A released connection is reused without the usual RESET round trip (as expensive as a read),
    so session state must stay inside a transaction: `set local`, `pg_advisory_xact_lock`.
    """

    def __init__(
        self,
        url: str,
        *,
        max_size: int = 10,
        statement_timeout_ms: int = 30_000,
        lock_timeout_ms: int = 10_000,
        connect_timeout: float = 10.0,
        application_name: str = "latchkey",
    ) -> None:
        self.url = url
        self._max_size = max_size
        self._connect_timeout = connect_timeout
        self._server_settings = session_settings(application_name, statement_timeout_ms, lock_timeout_ms)
        self._primary: Primary | None = None
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._hot: AtHand | None = None
        # None: it is a plain database.
        self._cluster: Cluster | None = None

    async def open(self) -> None:
        if self._pool is not None:
            return
        try:
            primary = Primary(parse(self.url), follow=follow)
            await primary.open()
        except _UNREACHABLE as error:
            raise unreachable(self.url, error) from error
        try:
            connection = await primary.connect(
                timeout=self._connect_timeout, server_settings=dict(self._server_settings)
            )
            try:
                self._cluster = await Cluster.find(connection, self.url, self._connect_to, self.acquire)
            finally:
                await connection.close()
            ordinary = max(1, self._max_size // 2)
            self._pool = await self._create_pool(primary, 1, ordinary, {})
            hot = max(1, self._max_size - ordinary)
            # Its first connection is opened when it is needed: most commands need none.
            self._hot = AtHand(await self._create_pool(primary, 0, hot, _HOT))
            self._primary = primary
        except _UNREACHABLE as error:
            raise unreachable(self.url, error) from error
        finally:
            if self._primary is None:
                await primary.close()

    async def _create_pool(
        self, primary: Primary, least: int, most: int, settings: Mapping[str, str]
    ) -> asyncpg.Pool[asyncpg.Record]:
        cluster = self._cluster
        # Without an address: the primary knows it.
        connecting: Any = lambda _, **options: primary.connect(**options)  # noqa: E731 - typed for the driver
        return await asyncpg.create_pool(
            connect=connecting,
            connection_class=cluster.connection_class if cluster is not None else asyncpg.Connection,
            min_size=least,
            max_size=most,
            timeout=self._connect_timeout,
            statement_cache_size=512,
            max_inactive_connection_lifetime=IDLE_SECONDS,
            server_settings={**self._server_settings, **settings, **(cluster.settings if cluster is not None else {})},
            init=use_raw_json,
            reset=cluster.release if cluster is not None else _keep_as_it_is,
        )

    async def _connect_to(self, url: str) -> asyncpg.Connection[asyncpg.Record]:
        """A connection as those of the hot pool, to another server."""
        connection = await Primary(parse(url)).connect(
            timeout=self._connect_timeout, statement_cache_size=512, server_settings={**self._server_settings, **_HOT}
        )
        await use_raw_json(connection)
        return connection

    @property
    def is_distributed(self) -> bool:
        return self._cluster is not None

    async def nodes(self, connection: Any) -> dict[str, bool]:
        """Of a distributed database: the nodes that have projects, and whether they answer."""
        return await self._cluster.nodes(connection) if self._cluster is not None else {}

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        hot, self._hot = self._hot, None
        if pool is None or hot is None:
            return
        await hot.release_all()
        if self._cluster is not None:
            await self._cluster.close()
        try:
            async with asyncio.timeout(10.0):
                await asyncio.gather(pool.close(), hot.pool.close())
        except TimeoutError:
            pool.terminate()
            hot.pool.terminate()
        finally:
            primary, self._primary = self._primary, None
            if primary is not None:
                await primary.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def pool(self) -> asyncpg.Pool[asyncpg.Record]:
        if self._pool is None:
            raise DatabaseUnreachableError(_NOT_OPEN)
        return self._pool

    @property
    def hot(self) -> AtHand:
        if self._hot is None:
            raise DatabaseUnreachableError(_NOT_OPEN)
        return self._hot

    def usage(self) -> PoolUsage:
        """How busy both pools are, for those who watch this process."""
        if self._pool is None or self._hot is None:
            return PoolUsage(0, 0, 0, 0)
        pools = (self._pool, self._hot.pool)
        # Those at hand are acquired for the pool, and idle for everybody else.
        idle = sum(pool.get_idle_size() for pool in pools) + len(self._hot.kept)
        size = sum(pool.get_size() for pool in pools)
        waiting = _waiting(self._pool) + max(_waiting(self._hot.pool), self._hot.waiting)
        return PoolUsage(sum(pool.get_max_size() for pool in pools), max(0, size - idle), idle, waiting)

    @property
    def trouble(self) -> NoPrimaryError | None:
        """Why no host of the address is the primary now. None while one is, or if the address names only one."""
        return self._primary.trouble if self._primary is not None else None

    async def connect(self, application_name: str) -> asyncpg.Connection[asyncpg.Record]:
        """A connection outside the pool, for LISTEN. It ends when the primary is lost or replaced."""
        return await connect(self.url, application_name=application_name, primary=self._primary)

    def acquire(self) -> AbstractAsyncContextManager[PoolConnectionProxy[asyncpg.Record]]:
        return self.pool.acquire()

    async def fetch(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        return await self.pool.fetch(query, *arguments)

    async def fetchrow(self, query: str, *arguments: Any) -> asyncpg.Record | None:
        return await self.pool.fetchrow(query, *arguments)

    async def fetchval(self, query: str, *arguments: Any) -> Any:
        return await self.pool.fetchval(query, *arguments)

    async def execute(self, query: str, *arguments: Any) -> str:
        return await self.pool.execute(query, *arguments)

    def at_hand(self) -> AbstractAsyncContextManager[PoolConnectionProxy[asyncpg.Record]]:
        """A connection of the hot pool; see `at_hand.py`."""
        return HeldConnection(self.hot)

    @asynccontextmanager
    async def transaction(
        self,
        *,
        isolation: Isolation = "read_committed",
        readonly: bool = False,
        hot: bool = False,
        statement_timeout_ms: int | None = None,
        lock_timeout_ms: int | None = None,
    ) -> AsyncIterator[PoolConnectionProxy[asyncpg.Record]]:
        """One connection in one transaction; the timeouts, if given, apply only to this transaction."""
        acquired = self.at_hand() if hot else self.acquire()
        async with acquired as connection, connection.transaction(isolation=isolation, readonly=readonly):
            if statement_timeout_ms is not None:
                await connection.execute(f"set local statement_timeout = {int(statement_timeout_ms)}")
            if lock_timeout_ms is not None:
                await wait_for_locks_at_most(connection, lock_timeout_ms, distributed=self.is_distributed)
            yield connection


class OneTransaction(Database):
    """The database as one transaction sees it: what use cases commit becomes a part of it, and ends with it."""

    def __init__(self, whole: Database, connection: Connection) -> None:
        self.url, self._cluster = whole.url, whole._cluster
        self._connection: Any = connection

    @property
    def pool(self) -> Any:
        """It has what a pool has for a single statement."""
        return self._connection

    def acquire(self) -> AbstractAsyncContextManager[PoolConnectionProxy[asyncpg.Record]]:
        return nullcontext(self._connection)

    at_hand = acquire

    @asynccontextmanager
    async def transaction(self, **_: Any) -> AsyncIterator[PoolConnectionProxy[asyncpg.Record]]:
        async with self._connection.transaction():
            yield self._connection


async def wait_for_locks_at_most(connection: Any, milliseconds: int, *, distributed: bool) -> None:
    """Until the transaction ends; 0 means for ever. In a distributed database also on the nodes, which do not have the
    coordinator's settings: a change of a table waited there until its statement was cancelled, and everybody who used
    the table waited behind it.

    Each command is one message, because Citus passes the text of the whole message on."""
    if distributed:
        await connection.execute("set local citus.propagate_set_commands = 'local'")
    await connection.execute(f"set local lock_timeout = {int(milliseconds)}")
    if distributed:
        await connection.execute("set local citus.propagate_set_commands = 'none'")


async def connect(
    url: str,
    *,
    application_name: str = "latchkey",
    connect_timeout: float = 60.0,
    primary: Primary | None = None,
    settings: Mapping[str, str] | None = None,
) -> asyncpg.Connection[asyncpg.Record]:
    """One connection outside any pool, for migrations and for LISTEN. It waits for locks as long as it takes."""
    server_settings = {**session_settings(application_name, 0, 0), **(settings or {})}
    try:
        connection = await (primary or Primary(parse(url))).connect(
            timeout=connect_timeout, server_settings=server_settings
        )
    except _UNREACHABLE as error:
        raise unreachable(url, error) from error
    await use_raw_json(connection)
    return connection


def session_settings(application_name: str, statement_timeout_ms: int, lock_timeout_ms: int) -> dict[str, str]:
    return {
        "application_name": application_name,
        "statement_timeout": str(statement_timeout_ms),
        "lock_timeout": str(lock_timeout_ms),
        # A process that hangs between begin and commit must not lock a customer's row for longer than this.
        "idle_in_transaction_session_timeout": "60000",
        # Our short queries run in microseconds; compiling them takes milliseconds.
        "jit": "off",
        "timezone": "UTC",
        # On Citus the driver's questions about types took seconds on each new connection. Elsewhere it means nothing.
        "citus.override_table_visibility": "off",
    }


# Of the hot pool's sessions.
_HOT = {
    # One plan for each query and connection. By default PostgreSQL plans a query over arrays anew every time, because
    # it guesses 10 rows for an array it has not seen: 710 µs for the read of one customer instead of 70. A plan is
    # renewed when its tables are analysed.
    "plan_cache_mode": "force_generic_plan",
    # Plan for a million rows even while the table is empty: every hot query looks rows up by an index. By default
    # PostgreSQL scans a table that was empty a minute ago, for each batch, until it is next analysed (measured: 450
    # purchases a second instead of 2,500).
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    # Every row is requested once: caching customers in case the same one is requested again only copies them.
    "enable_memoize": "off",
}


async def use_raw_json(connection: Any) -> None:
    await connection.set_type_codec("json", schema="pg_catalog", format="binary", encoder=_json_bytes, decoder=bytes)


def _json_bytes(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else value


async def _keep_as_it_is(connection: Any) -> None:
    pass


def _waiting(pool: Any) -> int:
    """The driver counts them nowhere; its queue has a list of those who wait."""
    getters = getattr(getattr(pool, "_queue", None), "_getters", ())
    return sum(not getter.done() for getter in getters)


def unreachable(url: str, error: BaseException) -> DatabaseUnreachableError:
    reason = IN_TRANSACTION_MODE if isinstance(error, MIXED_UP) else str(error).strip() or type(error).__name__
    kind = next((kind for known, kind in _KINDS if isinstance(error, known)), DatabaseUnreachableError)
    return kind(
        f"The database at {without_password(url)} cannot be reached: {reason}. "
        "Check LATCHKEY_DATABASE_URL and that PostgreSQL is running; `latchkey doctor` looks closer."
    )
