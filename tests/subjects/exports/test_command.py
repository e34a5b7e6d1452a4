"""`latchkey export`."""

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest

from latchkey.subjects.exports.usecases import destinations as destination
from tests.cli.running import LATCHKEY, clean_environment, typed
from tests.engine.fixtures import Core
from tests.patience import wait_until
from tests.subjects.exports.loading import Loaded, files_in, manifest_of, rows_of


async def ran(core: Core, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a thread: a command runs an event loop of its own."""
    environment = {"LATCHKEY_DATABASE_URL": core.database.url, "COLUMNS": "250", **environment}
    return await asyncio.to_thread(typed, "export", *words, **environment)


def only(root: Path, core: Core) -> list[Path]:
    return sorted((root / core.project_id).iterdir())


@pytest.mark.one_server("every export is a whole one there")
async def test_everything_then_what_changed(core: Core, tmp_path: Path) -> None:
    await core.act("purchase", user="ann", product="pro_monthly")
    first = await ran(core, "--to", tmp_path, "--format", "jsonl", "--incremental")
    assert first.returncode == 0, first.stderr
    assert "Everything" in first.stderr
    [folder] = only(tmp_path, core)
    assert first.stdout.strip() == manifest_of(folder).cursor
    await core.act("purchase", user="bob", product="pro_monthly")
    second = await ran(core, "--to", tmp_path, "--format", "jsonl", "--incremental")
    assert "What changed" in second.stderr
    loaded = Loaded()
    for one in only(tmp_path, core):
        loaded.take(one)
    assert {row["app_user_id"] for row in loaded.of_customers["transactions"]} == {"ann", "bob"}
    third = await ran(core, "--to", tmp_path, "--format", "jsonl", "--since", first.stdout.strip())
    assert "What changed" in third.stderr


async def test_only_what_was_asked_for(core: Core, tmp_path: Path) -> None:
    await core.act("purchase", user="ann", product="pro_monthly")
    done = await ran(core, "--to", tmp_path, "--what", "customers, events", "--format", "csv")
    assert done.returncode == 0, done.stderr
    [folder] = only(tmp_path, core)
    assert sorted(path.name for path in files_in(folder)) == [
        "customers-00001.csv",
        "events-00001.csv",
        "manifest.json",
    ]
    rows = await core.database.pool.fetch("select actor, action, outcome, subject from audit_entries")
    assert [tuple(row) for row in rows] == [("the command line", "export.run", "done", str(tmp_path))]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--what", "orders"), "Choose from events, transactions, customers, entitlements."),
        (("--what", ""), "Choose from"),
        (("--since", "yesterday"), "not the cursor of an export"),
        (("--since", "x", "--incremental"), "not both"),
        (("--project", "proj_none"), "proj_none"),
    ],
)
async def test_what_cannot_be_exported_is_told(core: Core, tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    failed = await ran(core, "--to", tmp_path, *words)
    assert failed.returncode != 0
    assert told in failed.stderr
    assert "Traceback" not in failed.stderr
    assert files_in(tmp_path) == []


async def test_a_bucket_needs_its_keys_in_the_environment(core: Core) -> None:
    failed = await ran(core, "--to", "s3://exports", AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
    assert failed.returncode == 1
    assert "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in failed.stderr


async def test_other_addresses_are_no_folders(core: Core) -> None:
    failed = await ran(core, "--to", "gs://exports")
    assert "a folder, or s3://bucket/prefix" in failed.stderr


async def test_a_folder_that_cannot_be_written_to_is_told(core: Core, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    failed = await ran(core, "--to", tmp_path / "file")
    assert failed.returncode == 1
    assert "is not a folder" in failed.stderr


def killed_once_writing(root: Path, words: tuple[str, ...], environment: dict[str, str]) -> None:
    """Starts the command, and kills it once it writes events."""
    with subprocess.Popen([LATCHKEY, *words], env=environment, stderr=subprocess.DEVNULL) as running:
        try:
            wait_until(lambda: any(path.name.startswith("events-") for path in files_in(root)))
        finally:
            os.kill(running.pid, signal.SIGKILL)


@pytest.mark.processes
async def test_killed_in_the_middle_nothing_counts_and_the_next_export_is_complete(core: Core, tmp_path: Path) -> None:
    for number in range(30):
        await core.act("purchase", user=f"user{number}", product="pro_monthly")
    environment = clean_environment(LATCHKEY_DATABASE_URL=core.database.url)
    words = ("export", "--to", str(tmp_path), "--format", "jsonl", "--incremental")
    # The export waits for this lock once its files are open.
    async with core.database.transaction() as connection:
        await connection.execute("lock table events in access exclusive mode")
        await asyncio.to_thread(killed_once_writing, tmp_path, words, environment)
    [left] = only(tmp_path, core)
    assert left.name.startswith(destination._PARTIAL)
    assert not (left / "manifest.json").exists()
    done = await ran(core, *words[1:])
    assert done.returncode == 0, done.stderr
    [folder] = only(tmp_path, core)
    assert manifest_of(folder).kind == "whole"
    assert len(rows_of(folder, "transactions")) == 30
    assert len(rows_of(folder, "events")) == 30
