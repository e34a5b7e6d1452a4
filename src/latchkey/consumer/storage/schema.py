"""Migrates the schema, safely even if several processes do so at once."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from latchkey.consumer.storage.database import Database

VERSION_TABLE = "billing_schema_version"
_SCRIPTS = Path(__file__).parent.parent / "migrations"
# An arbitrary constant: processes that start together migrate one after the other.
_LOCK = 7_011_226_015


def config(connection: Connection | None = None) -> Config:
    made = Config()
    made.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    made.attributes["connection"] = connection
    return made


async def migrate(database: Database) -> tuple[str | None, str | None]:
    """The schema's version before and after."""
    async with database.writing() as connection:
        if not database.is_sqlite:
            await connection.execute(text("select pg_advisory_xact_lock(:number)"), {"number": _LOCK})
        return await connection.run_sync(_migrate)


def newest() -> str | None:
    return ScriptDirectory.from_config(config()).get_current_head()


def _migrate(connection: Connection) -> tuple[str | None, str | None]:
    before = _version(connection)
    # This check takes 30 ms less than a migration that finds nothing to do.
    if before != newest():
        command.upgrade(config(connection), "head")
    return before, _version(connection)


def _version(connection: Connection) -> str | None:
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()
