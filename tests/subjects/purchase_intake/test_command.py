"""`latchkey app credentials` and `latchkey journal`, as somebody at a terminal would use them."""

import asyncio
import base64
import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from latchkey.database.pool import Database
from latchkey.now import real_now
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.projects import usecases as projects
from latchkey.subjects.purchase_intake.rules import JournalOutcome, NewEntry
from latchkey.subjects.purchase_intake.storage import journal_rows as storage
from latchkey.subjects.purchase_intake.usecases.journal import file_entries
from tests.cli.running import typed
from tests.cli.test_commands import up_folder
from tests.http.apple import app_store, app_store_credentials, keys

KEY = base64.b64encode(b"k" * 32).decode()
CLOSED = "http://127.0.0.1:1"


@pytest.fixture
async def environment(database: Database) -> dict[str, str]:
    """A project with an app in the App Store."""
    await projects.create_project(database, "Shop", real_now(), project_id="proj_shop")
    await projects.create_app(database, "proj_shop", "Notes [ios]", "app_store", real_now(), app_id="app_notes")
    await projects.create_app(database, "proj_shop", "Trial", "test_store", real_now(), app_id="app_trial")
    return {
        "LATCHKEY_DATABASE_URL": database.url,
        "LATCHKEY_SECRET_KEY": KEY,
        "LATCHKEY_STORE_ALLOW_HOSTS": "127.0.0.1",
    }


def written(folder: Path, given: Any) -> Path:
    file = folder / "credentials.json"
    file.write_bytes(json.encode(given))
    return file


async def test_credentials_from_a_file_are_checked_shown_and_deleted(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    async with app_store() as store:
        file = written(tmp_path, {**store.credentials, "private_key": ""})
        key = tmp_path / "SubscriptionKey_2X9R4HXF34.p8"
        key.write_text(keys().private_key)
        words = ("app", "credentials", "set", "app_notes", "--file", file, "--private-key", key)
        told = await asyncio.to_thread(typed, *words, **environment)
        again = await asyncio.to_thread(typed, "app", "credentials", "check", "app_notes", **environment)
        assert (again.returncode, again.stdout) == (0, told.stdout)
    assert told.returncode == 0, told.stderr
    assert "accepted" in told.stdout
    assert "com.example.notes" in told.stdout
    assert re.fullmatch(r"/incoming/[A-Za-z0-9_-]{32}", told.stdout.splitlines()[-1])
    secret = keys().private_key.splitlines()[1]
    shown = await asyncio.to_thread(typed, "app", "credentials", "show", "app_notes", **environment)
    assert shown.stdout == told.stdout
    assert secret not in told.stdout + told.stderr
    listed = await asyncio.to_thread(typed, "app", "list", **environment)
    assert "Notes [ios]" in listed.stdout
    assert re.search(r"app_notes.*accepted", listed.stdout)
    assert re.search(r"app_trial.*not needed", listed.stdout)

    rotated = await asyncio.to_thread(typed, "app", "credentials", "rotate-url", "app_notes", **environment)
    assert re.fullmatch(r"/incoming/[A-Za-z0-9_-]{32}\n", rotated.stdout)
    assert rotated.stdout.strip() not in told.stdout
    gone = await asyncio.to_thread(typed, "app", "credentials", "delete", "app_notes", "--yes", **environment)
    assert (gone.returncode, "are deleted" in gone.stdout) == (0, True)
    assert "missing" in (await asyncio.to_thread(typed, "app", "list", **environment)).stdout
    found = await audit.entries(database, "proj_shop", limit=4)
    assert [(one.actor, one.action, one.subject) for one in reversed(found)] == [
        ("the command line", "app.credentials_saved", "app_notes"),
        ("the command line", "app.credentials_checked", "app_notes"),
        ("the command line", "app.notification_url_rotated", "app_notes"),
        ("the command line", "app.credentials_deleted", "app_notes"),
    ]


async def test_credentials_from_standard_input_that_cannot_be_checked_are_saved(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.encode(app_store_credentials(CLOSED)).decode()))
    told = await asyncio.to_thread(typed, "app", "credentials", "set", "app_notes", **environment)
    assert told.returncode == 0, told.stderr
    assert "not checked" in told.stdout
    assert "Could not check" in told.stdout.replace("\n", " ")


async def test_refused_credentials_are_saved_and_the_command_fails(environment: dict[str, str], tmp_path: Path) -> None:
    async with app_store() as store:
        file = written(tmp_path, {**store.credentials, "key_id": "NOTTHISONE"})
        told = await asyncio.to_thread(typed, "app", "credentials", "set", "app_notes", "--file", file, **environment)
    assert (told.returncode, "refused" in told.stdout) == (1, True)


async def test_what_is_wrong_is_said_without_repeating_a_secret(environment: dict[str, str], tmp_path: Path) -> None:
    bad = written(tmp_path, {**app_store_credentials(CLOSED), "private_key": "very s3cret"})
    broken = tmp_path / "broken.json"
    broken.write_text('{"private_key": "very s3cret"')
    for words, complaint in (
        (("set", "app_notes", "--file", bad), "private_key must be the content of the .p8 file"),
        (("set", "app_notes", "--file", broken), "must be a JSON object"),
        (("set", "app_notes", "--file", tmp_path / "none.json"), "cannot be read: No such file"),
        (("set", "app_trial", "--file", bad), "need no credentials"),
        (("set", "app_none", "--file", bad), "no app app_none"),
        (("show", "app_trial"), "need no credentials"),
        (("rotate-url", "app_none"), "no app app_none"),
    ):
        told = await asyncio.to_thread(typed, "app", "credentials", *words, **environment)
        assert told.returncode == 1, words
        assert complaint in told.stderr.replace("\n", " "), told.stderr
        assert "s3cret" not in told.stdout + told.stderr
        assert "Traceback" not in told.stderr
    told = await asyncio.to_thread(
        typed, "app", "credentials", "show", "app_notes", **{**environment, "LATCHKEY_SECRET_KEY": ""}
    )
    assert (told.returncode, "LATCHKEY_SECRET_KEY" in told.stderr) == (2, True)
    await asyncio.to_thread(typed, "app", "credentials", "show", "app_notes", **environment)
    other = base64.b64encode(b"x" * 32).decode()
    told = await asyncio.to_thread(
        typed, "app", "credentials", "show", "app_notes", **{**environment, "LATCHKEY_SECRET_KEY": other}
    )
    assert (told.returncode, "is not the one that the credentials" in told.stderr.replace("\n", " ")) == (1, True)


async def test_the_url_of_an_up_is_whole(environment: dict[str, str], database: Database, tmp_path: Path) -> None:
    folder = up_folder(tmp_path, database.url)
    (folder / "secret.key").write_bytes(b"k" * 32)
    told = await asyncio.to_thread(typed, "app", "credentials", "show", "app_notes", "--data", folder)
    assert told.stdout.splitlines()[-1].startswith("https://demo/incoming/"), told.stderr


async def filed(database: Database, number: int, *, failed: bool = False) -> str:
    now = real_now()
    entry = NewEntry(
        project_id="proj_shop",
        app_id="app_notes",
        store="app_store",
        source="notification",
        external_id=f"id-{number}",
        kind=f"DID_RENEW/\x1b[31m{number}",
        environment="SANDBOX",
        subject="2000000000000000",
        occurred_at=now,
        received_at=now,
        checked={"signature": "valid"},
        payload='{"hello": "eyJhbGciOiJub25lIn0.eyJhIjoxfQ.c2ln"}',
        next_at=now,
    )
    [id] = await file_entries(database, [entry])
    assert id is not None
    if failed:
        async with database.acquire() as connection:
            await storage.finish(connection, [JournalOutcome(id=id, status="failed", message="It broke [here].")], now)
    return f"ntf_{id}"


async def test_the_journal_is_listed_shown_and_processed_again(environment: dict[str, str], database: Database) -> None:
    waits, broke = await filed(database, 1), await filed(database, 2, failed=True)
    listed = await asyncio.to_thread(typed, "journal", "list", **environment)
    assert listed.stdout.index(broke) < listed.stdout.index(waits), "newest first"
    assert "1 entry failed: latchkey journal list --status failed" in listed.stdout
    assert "\x1b[31m" not in listed.stdout
    failed = await asyncio.to_thread(typed, "journal", "list", "--status", "failed", "--since", "1h", **environment)
    assert (broke in failed.stdout, waits in failed.stdout) == (True, False)
    assert "entry failed" not in failed.stdout

    shown = await asyncio.to_thread(typed, "journal", "show", broke, **environment)
    assert "It broke [here]." in shown.stdout
    assert "checked: signature" in shown.stdout
    assert '"a": 1' in shown.stdout, "signed parts are opened"
    raw = await asyncio.to_thread(typed, "journal", "show", broke, "--raw", **environment)
    assert raw.stdout == '{"hello": "eyJhbGciOiJub25lIn0.eyJhIjoxfQ.c2ln"}\n'

    doctor = await asyncio.to_thread(typed, "doctor", **environment)
    assert "1 without credentials" in doctor.stdout

    again = await asyncio.to_thread(typed, "journal", "reprocess", broke, **environment)
    assert "1 entry is processed again" in again.stdout
    listed = await asyncio.to_thread(typed, "journal", "list", "--status", "waiting", **environment)
    assert (broke in listed.stdout, waits in listed.stdout, "failed" in listed.stdout) == (True, True, False)
    third = await filed(database, 3, failed=True)
    since = ("journal", "reprocess", "--since", "2026-01-01", "--status", "failed", "--app", "app_notes")
    assert "1 entry is processed again" in (await asyncio.to_thread(typed, *since, **environment)).stdout
    assert "nothing to process again" in (await asyncio.to_thread(typed, *since, **environment)).stdout
    assert third in (await asyncio.to_thread(typed, "journal", "list", "--status", "waiting", **environment)).stdout
    found = await audit.entries(database, "proj_shop", limit=5)
    assert {(one.action, one.subject) for one in found} == {
        ("store_notification.reprocessed", broke),
        ("store_notifications.reprocessed", "store notifications"),
    }


async def test_the_doctor_mentions_failed_entries(environment: dict[str, str], database: Database) -> None:
    await projects.delete_app(database, "proj_shop", "app_notes")
    assert "stores" not in (await asyncio.to_thread(typed, "doctor", **environment)).stdout
    await filed(database, 1, failed=True)
    assert "1 journal entries failed" in (await asyncio.to_thread(typed, "doctor", **environment)).stdout


async def test_a_journal_command_that_makes_no_sense_says_why(environment: dict[str, str]) -> None:
    for words, complaint in (
        (("show", "ntf_9"), "no notification"),
        (("reprocess",), "--since"),
        (("reprocess", "ntf_9"), "no notification"),
        (("reprocess", "ntf_9", "--since", "1h"), "--since"),
        (("reprocess", "ntf_9", "--status", "failed"), "go with --since"),
        (("reprocess", "--since", "soon"), "is not a time"),
        (("reprocess", "--since", "1h", "--app", "app_none"), "no app"),
        (("list", "--since", "0000"), "is not a time"),
    ):
        told = await asyncio.to_thread(typed, "journal", *words, **environment)
        assert told.returncode == 1, words
        assert complaint in told.stderr.replace("\n", " "), told.stderr
        assert "Traceback" not in told.stderr
