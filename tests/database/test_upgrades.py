"""Upgrades while processes run: what runs before and after, and which schema each release can work with."""

import asyncio
import re
from collections.abc import AsyncIterator
from io import StringIO
from typing import Any

import asyncpg
import pytest
from rich.console import Console

from latchkey.database import migrate as migrating
from latchkey.database.errors import DatabaseBusyError, SchemaError
from latchkey.database.migrate import Migration, in_order, migrate, migrations, pending, pending_after, require_current
from latchkey.database.pool import connect
from latchkey.process import doctor, migration
from tests.patience import until

KNOWN = migrations()
LAST = KNOWN[-1].version
# Two releases: the first gives projects a new column and then takes an old one away, the second has a table more.
EXPAND = Migration(LAST + 1, "color", "alter table projects add column color text, add column shade text")
CONTRACT = Migration(LAST + 1, "color", "alter table projects drop column shade", after=True)
NEXT = Migration(LAST + 2, "paints", "create table paints (id int)")
ONE_RELEASE_ON = in_order((*KNOWN, EXPAND, CONTRACT))
TWO_RELEASES_ON = in_order((*KNOWN, EXPAND, CONTRACT, NEXT))


class Code:
    """Which migrations the running code has."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def has(self, known: tuple[Migration, ...]) -> None:
        self._patch.setattr(migrating, "migrations", lambda: known)


@pytest.fixture
def code(monkeypatch: pytest.MonkeyPatch) -> Code:
    return Code(monkeypatch)


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Any]:
    connection = await connect(database_url)
    yield connection
    await connection.close()


async def columns(connection: Any, table: str) -> set[str]:
    rows = await connection.fetch("select attname from pg_attribute where attrelid = to_regclass($1)", table)
    return {row["attname"] for row in rows}


def labels(done: list[Migration]) -> list[str]:
    return [one.name + (".after" if one.after else "") for one in done]


# Before and after.


async def test_the_after_part_waits_until_it_is_asked_for_and_both_releases_work_meanwhile(
    connection: Any, code: Code
) -> None:
    code.has(ONE_RELEASE_ON)
    with pytest.raises(SchemaError, match="color"):
        await require_current(connection)
    assert labels(await migrate(connection)) == ["color"]
    assert await pending(connection) == []
    assert labels(await pending_after(connection)) == ["color.after"]
    assert {"color", "shade"} <= await columns(connection, "projects")
    await require_current(connection)
    code.has(KNOWN)
    await require_current(connection)
    assert await migrate(connection) == [], "so that whoever starts the old version with it can take the upgrade back"
    with pytest.raises(SchemaError, match="Finish the upgrade"):
        await migrate(connection, after=True)

    code.has(ONE_RELEASE_ON)
    assert labels(await migrate(connection, after=True)) == ["color.after"]
    assert await pending_after(connection) == []
    assert "shade" not in await columns(connection, "projects")
    await require_current(connection)
    code.has(KNOWN)
    for work in (require_current, migrate):
        with pytest.raises(SchemaError, match="--after"):
            await work(connection)


async def test_an_after_part_that_nobody_ran_does_not_keep_the_next_release_from_its_own(
    connection: Any, code: Code
) -> None:
    code.has(ONE_RELEASE_ON)
    await migrate(connection)
    code.has(TWO_RELEASES_ON)
    assert labels(await migrate(connection)) == ["paints"]
    await require_current(connection)
    assert labels(await migrate(connection, after=True)) == ["color.after"]


async def test_an_empty_database_gets_everything_at_once(empty_database_url: str, code: Code) -> None:
    connection = await connect(empty_database_url)
    code.has(TWO_RELEASES_ON)
    assert labels(await migrate(connection))[-3:] == ["color", "color.after", "paints"]
    assert await pending_after(connection) == []
    await connection.close()


def test_an_after_part_belongs_to_a_migration() -> None:
    with pytest.raises(ValueError, match="beside it"):
        in_order((*KNOWN, Migration(LAST, "another_name", "", after=True)))
    with pytest.raises(ValueError, match="without a gap"):
        in_order((*KNOWN, Migration(LAST + 2, "too_far", "")))


async def test_migrate_and_doctor_say_that_an_after_part_is_pending(
    connection: Any, database_url: str, code: Code
) -> None:
    code.has(ONE_RELEASE_ON)
    said = StringIO()
    await migration.run(database_url, dry_run=False, after=False, console=Console(file=said, width=200))
    assert f"{CONTRACT.label} is pending" in said.getvalue()
    finding = await doctor.schema(connection)
    assert (finding.mark, CONTRACT.label in finding.words) == ("unknown", True)
    assert "latchkey migrate --after" in finding.remedy
    code.has(KNOWN)
    assert "newer Latchkey" in (await doctor.schema(connection)).words
    code.has(ONE_RELEASE_ON)
    await migration.run(database_url, dry_run=False, after=True, console=Console(file=said, width=200))
    assert (await doctor.schema(connection)).mark == "good"


# Checksums.


async def test_a_migration_that_changed_after_it_ran_is_refused_and_shown(connection: Any, code: Code) -> None:
    code.has(ONE_RELEASE_ON)
    await migrate(connection, after=True)
    for changed in (EXPAND, CONTRACT):
        text = f"{changed.text} -- and more"
        known = (
            *(one for one in ONE_RELEASE_ON if one is not changed),
            Migration(LAST + 1, "color", text, changed.after),
        )
        code.has(in_order(known))
        with pytest.raises(SchemaError, match=rf"{changed.label}\.sql.*must not change"):
            await migrate(connection)
        finding = await doctor.schema(connection)
        assert finding.mark == "bad"
        assert f"{changed.label}.sql" in finding.words
        # Running processes go on: the schema is unchanged.
        await require_current(connection)


# Indexes.


def index(statement: str) -> tuple[Migration, ...]:
    return in_order((*KNOWN, Migration(LAST + 1, "index", f"-- Finds projects; by name.\n{statement};\n")))


async def is_valid(connection: Any, name: str) -> bool | None:
    valid: bool | None = await connection.fetchval(
        "select indisvalid from pg_index where indexrelid = to_regclass($1)", name
    )
    return valid


async def test_an_index_is_built_while_others_write(connection: Any, database_url: str, code: Code) -> None:
    code.has(index("create index concurrently projects_by_name on projects (name)"))
    writer, other = await connect(database_url), await connect(database_url)
    transaction = writer.transaction()
    await transaction.start()
    await writer.execute("insert into projects (id, name, created_at) values ('a', 'A', 0)")
    building = asyncio.create_task(migrate(connection))

    # The build waits for the open transaction, and others can write meanwhile.
    async def begun() -> bool:
        assert not building.done(), building
        return await is_valid(other, "projects_by_name") is not None

    await until(begun, "the index is not being built")
    await other.execute("insert into projects (id, name, created_at) values ('b', 'B', 0)")
    await transaction.commit()
    assert labels(await building) == ["index"]
    assert await is_valid(connection, "projects_by_name")
    await writer.close()
    await other.close()


async def test_an_index_that_failed_half_way_is_built_anew(connection: Any, code: Code) -> None:
    code.has(index("create unique index concurrently projects_by_name on projects (name)"))
    for id in ("a", "b"):
        await connection.execute("insert into projects (id, name, created_at) values ($1, 'same', 0)", id)
    with pytest.raises(asyncpg.UniqueViolationError):
        await migrate(connection)
    assert await is_valid(connection, "projects_by_name") is False
    assert labels(await pending(connection)) == ["index"]
    await connection.execute("update projects set name = 'other' where id = 'b'")
    assert labels(await migrate(connection)) == ["index"]
    assert await is_valid(connection, "projects_by_name") is True


async def test_an_index_that_was_built_but_not_recorded_is_kept(connection: Any, code: Code) -> None:
    code.has(index("create index concurrently projects_by_name on projects (name)"))
    await connection.execute("create index projects_by_name on projects (name)")
    before = await connection.fetchval("select 'projects_by_name'::regclass::oid")
    assert labels(await migrate(connection)) == ["index"]
    assert await connection.fetchval("select 'projects_by_name'::regclass::oid") == before


async def test_the_second_of_two_processes_gives_up_when_the_first_takes_too_long(
    connection: Any, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await connect(database_url)
    await migrating._take_turn(first)
    monkeypatch.setattr(migrating, "TURN_TIMEOUT_MS", 50)
    with pytest.raises(DatabaseBusyError, match="Another process"):
        await migrate(connection)
    await first.close()


def test_a_file_that_builds_an_index_concurrently_holds_nothing_else() -> None:
    mixed = Migration(1, "mixed", "create index concurrently a on b (c); create table d (e int)")
    with pytest.raises(ValueError, match="only such statements"):
        mixed.concurrent_indexes()
    assert Migration(1, "plain", "-- not concurrently\ncreate index a on b (c)").concurrent_indexes() == []


@pytest.mark.parametrize("migration", KNOWN, ids=lambda one: one.label)
def test_indexes_on_existing_tables_are_built_concurrently(migration: Migration) -> None:
    migration.concurrent_indexes()
    made = set(re.findall(r"create (?:unlogged )?table (\w+)", migration.text))
    for concurrently, table in re.findall(r"create (?:unique )?index (concurrently )?\w+ on (\w+)", migration.text):
        assert concurrently or table in made, f"Nobody could write to {table} while its index is built."
