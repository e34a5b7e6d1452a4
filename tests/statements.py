"""Counts what a `Database` says to PostgreSQL: one entry for each round trip, by the name of its query."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from latchkey.database import pool as storage
from latchkey.database.pool import Database
from latchkey.database.sql import all_queries


@asynccontextmanager
async def counted(url: str, connections: int = 4) -> AsyncIterator[tuple[Database, list[str]]]:
    """A database of its own, and the statements of all its connections so far, the listening one included. BEGIN and
    COMMIT are statements too."""
    names = {one.text: one.name for one in all_queries().values()}
    said: list[str] = []
    prepare = storage.use_raw_json

    def log(query: Any) -> None:
        said.append(names.get(query.query) or query.query.split(maxsplit=1)[0].rstrip(";").lower())

    async def prepared(connection: Any) -> None:
        await prepare(connection)
        connection.add_query_logger(log)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(storage, "use_raw_json", prepared)
        async with Database(url, max_size=connections) as database:
            yield database, said
