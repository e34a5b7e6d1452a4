"""migrate, project, key and version, as somebody at a terminal would use them."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from latchkey.cli.service_client import ServiceAway, ServiceClient
from latchkey.database.pool import connect
from tests.cli.running import typed
from tests.client.service import Says, Script


def test_migrate_shows_what_it_does_and_does_it_once(empty_database_url: str) -> None:
    would = typed("migrate", "--dry-run", LATCHKEY_DATABASE_URL=empty_database_url)
    assert "would run 0001_baseline" in would.stdout
    first = typed("migrate", LATCHKEY_DATABASE_URL=empty_database_url)
    assert first.returncode == 0
    assert "0001_baseline" in first.stdout
    second = typed("migrate", LATCHKEY_DATABASE_URL=empty_database_url)
    assert "Nothing to do" in second.stdout


async def test_a_migration_that_was_changed_is_refused_in_one_clear_line_and_shown_by_the_doctor(
    database_url: str, tmp_path: Path
) -> None:
    connection = await connect(database_url)
    await connection.execute("update schema_migrations set checksum = 'other' where version = 1")
    await connection.close()
    refused = await asyncio.to_thread(typed, "migrate", LATCHKEY_DATABASE_URL=database_url)
    assert refused.returncode == 1
    assert "0001_baseline.sql" in refused.stderr.replace("\n", "")
    assert "Traceback" not in refused.stderr
    told = await asyncio.to_thread(typed, "doctor", "--data", tmp_path, LATCHKEY_DATABASE_URL=database_url)
    assert told.returncode == 1
    assert "✗ schema  Changed since" in told.stdout


def test_a_command_without_a_database_says_how_to_name_one(tmp_path: Path) -> None:
    told = typed("migrate", "--data", tmp_path)
    assert told.returncode == 2
    assert "LATCHKEY_DATABASE_URL" in told.stderr
    assert "--data" in told.stderr


def test_a_command_for_an_up_that_is_stopped_says_to_start_it(tmp_path: Path) -> None:
    (tmp_path / "connection.json").write_text('{"database_url": "postgresql://postgres@/latchkey?host=/nowhere"}')
    told = typed("key", "list", "--data", tmp_path)
    assert told.returncode == 1
    assert f"latchkey up --data {tmp_path}" in told.stderr.replace("\n", "")


COMMANDS = (
    ("migrate",),
    ("project", "create", "Shop"),
    ("project", "list"),
    ("key", "create", "--name", "x"),
    ("user", "create", "ada@example.com"),
)


def up_folder(folder: Path, database_url: str) -> Path:
    """A folder that other commands take for that of a running `latchkey up`."""
    (folder / "postgres").mkdir()
    (folder / "postgres" / "postmaster.pid").touch()
    (folder / "connection.json").write_text(json.dumps({"database_url": database_url, "base_url": "https://demo"}))
    return folder


def test_commands_with_secrets_take_the_key_of_a_running_up_where_mails_are_set(
    database_url: str, tmp_path: Path
) -> None:
    folder = up_folder(tmp_path, database_url)
    (folder / "secret.key").write_bytes(bytes(32))
    mails = {"LATCHKEY_MAIL_FOLDER": str(tmp_path), "LATCHKEY_PUBLIC_URL": "https://demo.example.com"}
    assert typed("project", "create", "Demo", "--data", folder).returncode == 0
    for words in (("config", "pull", tmp_path / "config.yaml"), ("webhook", "list")):
        told = typed(*words, "--data", folder, **mails)
        assert told.returncode == 0, told.stderr


def test_an_empty_database_address_is_refused_by_every_command(database_url: str, tmp_path: Path) -> None:
    folder, config = up_folder(tmp_path, database_url), tmp_path / "latchkey.toml"
    config.write_text('database_url = ""')
    config.chmod(0o600)
    for words in COMMANDS:
        told = typed(*words, "--data", folder, LATCHKEY_DATABASE_URL="")
        assert (told.returncode, told.stdout) == (2, "")
        assert "LATCHKEY_DATABASE_URL is set but empty." in told.stderr
        told = typed(*words, "--data", folder, "--config", config)
        assert (told.returncode, told.stdout) == (2, "")
        assert "database_url is set but empty." in told.stderr
    assert "LATCHKEY_DATABASE_URL is set but empty." in typed("serve", LATCHKEY_DATABASE_URL="").stderr
    doctor = typed("doctor", "--data", folder, LATCHKEY_DATABASE_URL="")
    assert (doctor.returncode, "LATCHKEY_DATABASE_URL is set but empty." in doctor.stdout) == (1, True)
    # An empty variable does not override the address in the file.
    config.write_text(f'database_url = "{database_url}"')
    assert typed("migrate", "--data", folder, "--config", config, LATCHKEY_DATABASE_URL="").returncode == 0


def test_a_command_says_when_it_uses_the_database_of_an_up(database_url: str, tmp_path: Path) -> None:
    folder = up_folder(tmp_path, database_url)
    for words in COMMANDS:
        told = typed(*words, "--data", folder)
        assert told.returncode == 0, told.stderr
        said = f"No database is configured. Using the database of the `latchkey up` in {folder}."
        assert (told.stderr.splitlines()[0], told.stderr.count("Using the database")) == (said, 1)
        assert "Using the database" not in told.stdout
    # The invitation link has the address of that `latchkey up`.
    assert "https://demo/dashboard/invitations/" in told.stdout
    assert typed("project", "list", "--data", folder, LATCHKEY_DATABASE_URL=database_url).stderr == ""


def test_a_folder_that_up_cannot_use_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        told = typed("up", "--data", folder, "--port", "0")
        assert told.returncode == 1
        assert "cannot be used (Not a directory). Choose another folder with --data." in told.stderr
        assert "Traceback" not in told.stderr


def test_a_key_is_shown_once_listed_by_its_ends_and_revoked(database_url: str) -> None:
    environment = {"LATCHKEY_DATABASE_URL": database_url}
    assert "no project yet" in typed("key", "create", "--name", "x", **environment).stderr
    made = typed("project", "create", "Shop", **environment)
    assert made.returncode == 0, made.stderr
    (project,) = re.findall(r"proj_[0-9a-f]+", made.stdout.splitlines()[0])
    assert project in typed("project", "list", **environment).stdout

    secret = typed("key", "create", "--name", "server", "--scopes", "read", "--rate-limit", "100", **environment)
    key = secret.stdout.strip()
    assert re.fullmatch(r"sk_[A-Za-z0-9]{32}", key), "The key alone is on stdout."
    assert key not in secret.stderr
    app = typed("app", "create", "ios", "--store", "app_store", "--project", project, **environment)
    assert app.stdout.startswith("appl_"), app.stderr
    (app_id,) = re.findall(r"app_[0-9a-f]+", app.stderr)
    public = typed("key", "create", "--name", "ios", "--app", app_id, "--project", project, **environment)
    assert public.stdout.startswith("appl_"), public.stderr
    assert ["cannot be shown again" in made.stderr for made in (secret, public)] == [True, False]
    assert public.stdout.strip() in typed("key", "list", "--json", **environment).stdout

    listed = typed("key", "list", **environment).stdout
    assert key not in listed
    assert public.stdout.strip() not in listed
    assert f"sk_…{key[-4:]}" in listed
    assert "100" in listed
    # The id is whole even in a narrow terminal: one copies it to revoke the key.
    (key_id,) = re.findall(r"key_[0-9a-f]{16}", next(line for line in listed.splitlines() if "server" in line))
    assert "…" not in listed.replace("sk_…", "").replace("appl_…", "")

    revoked = typed("key", "revoke", key_id, **environment)
    assert revoked.returncode == 0
    assert "was revoked on" in revoked.stdout
    assert typed("key", "revoke", "key_none", **environment).returncode == 1


def test_a_key_with_rules_is_listed_changed_and_replaced(database_url: str, tmp_path: Path) -> None:
    environment = {"LATCHKEY_DATABASE_URL": database_url, "COLUMNS": "300"}
    typed("project", "create", "Shop", **environment)
    rules = ("--expires", "10d", "--allow", "203.0.113.7", "--allow", "2001:db8::/32", "--shape", "vendor")
    old = typed("key", "create", "--name", "server", *rules, **environment)
    assert old.returncode == 0, old.stderr
    assert "secret keys expire soon: server" in typed("doctor", "--data", tmp_path, **environment).stdout
    listed = typed("key", "list", **environment).stdout
    (key_id,) = re.findall(r"key_[0-9a-f]{16}", listed)
    assert "only from 203.0.113.7/32, 2001:db8::/32" in listed
    assert "(vendor's shape)" in listed
    told = typed("key", "edit", key_id, "--never-expires", "--allow", "10.0.0.0/8", **environment)
    assert "works always, only from 10.0.0.0/8" in told.stdout, told.stderr
    new = typed("key", "rotate", key_id, "--overlap-days", "0", **environment)
    assert re.fullmatch(r"sk_[A-Za-z0-9]{32}", new.stdout.strip()), new.stderr
    assert "it expired" in typed("key", "list", **environment).stdout
    for words, complaint in (
        (("create", "--name", "x", "--expires", "soon"), "is not a time"),
        (("create", "--name", "x", "--expires", "2001-01-01"), "in the future"),
        (("create", "--name", "x", "--shape", "round"), "A shape is one of latchkey, vendor."),
        (("create", "--name", "x", "--app", "app_x", "--expires", "1d"), "public key"),
        (("edit", key_id, "--expires", "1d", "--never-expires"), "contradict"),
        (("edit", key_id, "--allow", "here"), "is not an address"),
        (("rotate", key_id), "has expired"),
    ):
        told = typed("key", *words, **environment)
        assert told.returncode == 1, told.stdout
        assert complaint in told.stderr
        assert "Traceback" not in told.stderr


def test_a_default_project_is_a_setting(database_url: str) -> None:
    environment = {"LATCHKEY_DATABASE_URL": database_url}
    first, second = (
        json.loads(typed("project", "create", name, "--json", **environment).stdout)["id"] for name in ("One", "Two")
    )
    assert "several projects" in typed("entitlement", "create", "pro", **environment).stderr
    for words in (("entitlement", "create", "pro"), ("project", "set", "--test-store", "closed")):
        done = typed(*words, **environment, LATCHKEY_PROJECT=second)
        assert done.returncode == 0, done.stderr
    assert "pro" in typed("entitlement", "list", "--project", second, **environment).stdout
    assert "no entitlement yet" in typed("entitlement", "list", "--project", first, **environment).stdout
    listed = json.loads(typed("project", "list", "--json", **environment).stdout)["items"]
    assert {one["id"]: one["test_store"] for one in listed} == {first: "open", second: "closed"}


def test_a_projects_settings_are_shown_and_changed(database_url: str) -> None:
    environment = {"LATCHKEY_DATABASE_URL": database_url}
    made = typed("project", "create", "Shop", **environment)
    assert "test store is open" in made.stdout
    (project,) = set(re.findall(r"proj_[0-9a-f]+", made.stdout))
    told = typed("project", "set", project, "--test-store", "closed", "--restore-behavior", "keep", **environment)
    assert told.returncode == 0, told.stderr
    assert "restored purchases keep, test store closed" in told.stdout
    assert "Asia/Tokyo" in typed("project", "set", project, "--time-zone", "Asia/Tokyo", **environment).stdout
    (line,) = [line for line in typed("project", "list", **environment).stdout.splitlines() if project in line]
    assert "closed" in line
    assert "Shop" in line
    for words, complaint in (
        ((project,), "--test-store"),
        ((project, "--test-store", "ajar"), "ajar"),
        ((project, "--time-zone", "Tokyo"), "not a time zone"),
        (("proj_none", "--test-store", "open"), "no project"),
    ):
        told = typed("project", "set", *words, **environment)
        assert told.returncode != 0
        assert complaint in told.stderr
        assert "Traceback" not in told.stderr


def test_a_refused_key_says_why_without_a_traceback(database_url: str) -> None:
    typed("project", "create", "Shop", LATCHKEY_DATABASE_URL=database_url)
    for words, complaint in (
        (("--scopes", "admin"), "read, write"),
        (("--app", "app_none"), "no app"),
        (("--project", "proj_none"), "no project"),
    ):
        told = typed("key", "create", "--name", "x", *words, LATCHKEY_DATABASE_URL=database_url)
        assert told.returncode == 1
        assert complaint in told.stderr
        assert "Traceback" not in told.stderr


async def test_exchange_rates_are_imported_listed_and_refused_with_the_line(database_url: str, tmp_path: Path) -> None:
    file = tmp_path / "rates.csv"
    file.write_text("date,currency,usd\n2026-01-05,EUR,1.0834\n")

    def rates(*words: str) -> str:
        done = typed("rates", *words, LATCHKEY_DATABASE_URL=database_url)
        return done.stdout + done.stderr

    assert "1 new" in await asyncio.to_thread(rates, "import", str(file))
    assert "1.0834" in await asyncio.to_thread(rates, "list", "--currency", "eur")
    file.write_text("date,currency,usd\n2026-01-05,EUR,much\n")
    assert "line 2: 'much' is not a number" in (await asyncio.to_thread(rates, "import", str(file))).replace("\n", " ")


@pytest.mark.parametrize("body", [b"", b'{"message":"\xff"}', b'{"message":' + b"[" * 100_000])
async def test_what_is_no_answer_of_a_service_is_one_clear_line(body: bytes) -> None:
    async with ServiceClient("https://service.test", "sk_key", middleware=Script([Says(200, body)])) as service:
        with pytest.raises(ServiceAway, match="does not answer as a Latchkey service does: status 200"):
            await service.ask("GET", "/v2/projects")
