"""`latchkey import`, as somebody at a terminal would use it."""

import asyncio
import csv
from pathlib import Path

import pytest

from latchkey.database.pool import Database
from latchkey.now import real_now
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.projects import usecases as projects
from tests.cli.running import Running, typed
from tests.engine.fixtures import new_project
from tests.patience import until
from tests.subjects.imports.vendor_rows import file_of, row

HEADER = "app_user_id,store,subscription_id,transaction_id,product_id,purchased_at,expires_at,price,currency\n"


@pytest.fixture
async def environment(database: Database) -> dict[str, str]:
    """A project with a catalog and an app in the App Store."""
    await new_project(database, "proj_shop", real_now())
    await projects.create_app(database, "proj_shop", "Notes", "app_store", real_now(), app_id="app_notes")
    return {"LATCHKEY_DATABASE_URL": database.url, "COLUMNS": "200"}


async def test_a_dry_run_the_import_and_the_same_again(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    file, report = tmp_path / "export.csv", tmp_path / "skipped.csv"
    file.write_text(file_of([row(), row(start_time="never"), row(product_identifier="gold", store_transaction_id="9")]))
    words = ("import", file, "--format", "revenuecat", "--report", report)
    dry = await asyncio.to_thread(typed, *words, "--dry-run", **environment)
    assert dry.returncode == 0, dry.stderr
    assert "nothing was written" in dry.stderr
    assert "grant nothing until you add them: gold" in dry.stderr
    assert await database.pool.fetchval("select count(*) from customers") == 0
    done = await asyncio.to_thread(typed, *words, **environment)
    assert done.returncode == 0, done.stderr
    assert "Imported as imp_" in done.stderr
    with report.open(newline="") as content:
        assert list(csv.reader(content)) == [
            ["file", "line", "reason"],
            ["export.csv", "3", "start_time is not a date such as 2026-01-31T08:00:00.000Z."],
        ]
    again = await asyncio.to_thread(typed, *words, **environment)
    assert again.returncode == 0
    assert "Nothing was changed" in again.stderr
    entries = await audit.entries(database, "proj_shop")
    assert [(one.action, one.subject, one.outcome) for one in entries] == [("import.run", "export.csv", "done")] * 2


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("nothing.csv",), 1, "nothing.csv cannot be read: No such file or directory."),
        (("{file}", "--app", "app_store"), 1, "does not have the form STORE=APP"),
        (("{file}", "--app", "app_store=app_1"), 1, "has no app app_1 in app_store"),
        (("{file}", "--format", "parquet"), 2, "parquet"),
        (("{file}", "--report", "{folder}/no/report.csv"), 1, "cannot be written: No such file or directory."),
        (("{file}", "--project", "proj_9"), 1, "proj_9"),
        (("{file}", "--format", "revenuecat"), 1, "is no transaction export of RevenueCat"),
    ],
)
async def test_a_mistake_is_told_and_changes_nothing(
    environment: dict[str, str], database: Database, tmp_path: Path, words: tuple[str, ...], code: int, complaint: str
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(HEADER)
    given = [one.format(file=file, folder=tmp_path) for one in words]
    told = await asyncio.to_thread(typed, "import", *given, **environment)
    assert told.returncode == code, told.stderr
    assert complaint in " ".join(told.stderr.split())
    assert await database.pool.fetchval("select count(*) from customers") == 0


async def test_an_import_that_was_killed_goes_on_without_a_duplicate(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    file = tmp_path / "rows.csv"
    people = [f"user{number:05}" for number in range(4_500)]
    months = ("2026-01-01T00:00:00Z,2026-02-01T00:00:00Z", "2026-02-01T00:00:00Z,2026-03-01T00:00:00Z")
    lines = (
        f"{one},app_store,{one},{one}-{number},pro_monthly,{month},8.99,EUR\n"
        for one in people
        for number, month in enumerate(months)
    )
    file.write_text(HEADER + "".join(lines))
    words = ("import", file, "--app", "app_store=app_notes")
    # Whoever holds this row makes the import wait in its second batch.
    await asyncio.to_thread(typed, "import", _only(tmp_path, people[3_000]), **environment)
    async with database.transaction() as connection:
        await connection.fetch("select 1 from customers for update")
        with Running(*words, **environment) as process:

            async def begun() -> bool:
                written = await database.pool.fetchval(
                    "select count(*) from imports where cursor <> '' and status = 'applying'"
                )
                return bool(written)

            await until(begun, lambda: process.output)
            process.kill()
    written = await database.pool.fetchval("select count(*) from customers")
    assert 1 < written < len(people)
    done = await asyncio.to_thread(typed, *words, **environment)
    assert done.returncode == 0, done.stderr
    assert "Went on with imp_" in done.stderr
    counts = await database.pool.fetchrow(
        "select (select count(*) from customers) as customers, (select count(*) from aliases) as aliases, "
        "(select count(*) from purchase_owners) as owners, (select count(*) from store_handles) as handles, "
        "(select sum(json_array_length(state #> '{subscriptions,0,periods}')) from customers) as periods"
    )
    assert counts is not None
    assert tuple(counts) == (4_500, 4_500, 4_501, 4_500, 9_000)


def _only(folder: Path, user: str) -> Path:
    file = folder / "one.csv"
    file.write_text(HEADER + f"{user},paddle,,first,pro_lifetime,2026-01-01T00:00:00Z,,99,EUR\n")
    return file
