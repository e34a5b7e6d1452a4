"""Migrates the schema, safely even if several processes do so at once.

Alembic is imported only where there is something to migrate: importing it takes 0.1 s of CPU, a fifth of the start of a
consumer.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, column, inspect, select, table, text

from latchkey.consumer.storage.consumer_database import ConsumerDatabase

if TYPE_CHECKING:
    from alembic.config import Config

VERSION_TABLE = "billing_schema_version"
_SCRIPTS = Path(__file__).parent.parent / "migrations"
# An arbitrary constant: processes that start together migrate one after the other.
_LOCK = 7_011_226_015


def config(connection: Connection | None = None) -> Config:
    from alembic.config import Config

    made = Config()
    made.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    made.attributes["connection"] = connection
    return made


async def migrate(database: ConsumerDatabase) -> tuple[str | None, str | None]:
    """The schema's version before and after."""
    async with database.writing() as connection:
        if not database.is_sqlite:
            await connection.execute(text("select pg_advisory_xact_lock(:number)"), {"number": _LOCK})
        return await connection.run_sync(_migrate)


def newest() -> str:
    """The last version of the schema. The name of each script begins with its version."""
    return max(script.name for script in (_SCRIPTS / "versions").glob("[0-9]*.py")).partition("_")[0]


def _migrate(connection: Connection) -> tuple[str | None, str | None]:
    before = _version(connection)
    if before != newest():
        from alembic import command

        command.upgrade(config(connection), "head")
    return before, _version(connection)


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.scalar(select(column("version_num")).select_from(table(VERSION_TABLE)))
