"""Connections to the two databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from latchkey.database_address import parse
from latchkey.storage.database import unreachable
from latchkey.storage.errors import DatabaseBusyError, NoPrimaryError
from latchkey.storage.primary import Primary

NAME = "latchkey admin copy-database"
# Any number that nothing else in this database uses as an advisory lock.
_TURN = int.from_bytes(b"latchrel", "big", signed=True)


async def connect(url: str) -> Any:
    """May write, also where everybody else is kept from it (see `fence.py`)."""
    try:
        return await Primary(parse(url)).connect(
            timeout=60.0,
            server_settings={
                "application_name": NAME,
                "default_transaction_read_only": "off",
                "statement_timeout": "0",
                "lock_timeout": "60000",
                "idle_in_transaction_session_timeout": "0",
                "timezone": "UTC",
                "jit": "off",
                "plan_cache_mode": "force_custom_plan",
                "client_min_messages": "warning",
                "citus.override_table_visibility": "off",
                # Of a cluster: what a transaction sets holds on every node, and it uses one connection to each.
                "citus.propagate_set_commands": "local",
                "citus.multi_shard_modify_mode": "sequential",
            },
        )
    except (OSError, TimeoutError, ValueError, NoPrimaryError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise unreachable(url, error) from error


@asynccontextmanager
async def both(source_url: str, target_url: str) -> AsyncIterator[tuple[Any, Any]]:
    source = await connect(source_url)
    try:
        target = await connect(target_url)
        try:
            yield source, target
        finally:
            await _closed(target)
    finally:
        await _closed(source)


async def take_turn(target: Any) -> None:
    """One process at a time fills a database."""
    if not await target.fetchval("select pg_try_advisory_lock($1)", _TURN):
        raise DatabaseBusyError("Another `latchkey admin copy-database` fills that database. Stop it first.")


async def _closed(connection: Any) -> None:
    try:
        await asyncio.wait_for(connection.close(), 5)
    except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()
