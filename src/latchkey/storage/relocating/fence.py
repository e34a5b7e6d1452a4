"""Keeps everybody from writing to the database that is copied. It stays so until somebody takes the fence away, also
after a crash of the server or of this process. Reads go on."""

from __future__ import annotations

import asyncio
from typing import Any

from latchkey.storage.errors import NotRelocatableError
from latchkey.storage.relocating.connections import NAME

_OTHERS = """
select array_agg(pid) from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and application_name <> $1
"""
_LEFT = "select count(*) from pg_stat_activity where pid = any($1::integer[]) and datname = current_database()"
_PATIENCE_SECONDS = 30.0


async def put_up(source: Any) -> None:
    """Returns when nobody can write any more and everything that was committed is visible."""
    await _set(source, "set default_transaction_read_only = on")
    await _part_from_others(source)


async def take_down(source: Any) -> None:
    await _set(source, "reset default_transaction_read_only")
    # Who has connected meanwhile cannot write.
    await _part_from_others(source)


async def is_up(source: Any) -> bool:
    found: bool = await source.fetchval(
        "select coalesce(bool_or('default_transaction_read_only=on' = any(s.setconfig)), false)"
        " from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase"
        " where d.datname = current_database() and s.setrole = 0"
    )
    return found


async def _set(source: Any, words: str) -> None:
    name = await source.fetchval("select quote_ident(current_database())")
    await source.execute(f"alter database {name} {words}")


async def _part_from_others(source: Any) -> None:
    pids = await source.fetchval(_OTHERS, NAME) or []
    await source.execute("select pg_terminate_backend(pid) from unnest($1::integer[]) as pid", pids)
    loop = asyncio.get_running_loop()
    give_up = loop.time() + _PATIENCE_SECONDS
    while await source.fetchval(_LEFT, pids):
        if loop.time() > give_up:
            raise NotRelocatableError("Some connections to the database could not be ended.")
        await asyncio.sleep(0.02)
