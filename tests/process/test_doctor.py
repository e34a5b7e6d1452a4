"""`latchkey doctor`: what is well, what is not, and everything that `latchkey serve` would refuse."""

import asyncio
import base64
import ipaddress
import re
from pathlib import Path

import asyncpg
import pytest
from msgspec.structs import replace

from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.now import real_now
from latchkey.process.doctor_deployment import deployment, told_about
from latchkey.process.local_ca.authority import ensure_certificates
from latchkey.process.supervision.listeners import bind
from latchkey.subjects.demo.usecases.project import ensure_demo
from latchkey.subjects.deployment import storage as looking
from latchkey.subjects.deployment.rules import ListsReport, PartitionReport, Table
from latchkey.subjects.webhooks.rules import Setup
from latchkey.subjects.webhooks.usecases.registry import Registry
from tests.cli.running import latchkey, typed
from tests.subjects.deployment.test_rules import QUIET

KEY = base64.b64encode(b"k" * 32).decode()


@pytest.fixture
def complete(database_url: str, tmp_path: Path) -> dict[str, str]:
    """Every setting that `serve` needs."""
    certificates = ensure_certificates(tmp_path / "tls", [ipaddress.ip_address("127.0.0.1")], real_now())
    return {
        "LATCHKEY_DATABASE_URL": database_url,
        "LATCHKEY_SECRET_KEY": KEY,
        "LATCHKEY_TLS_CERT": str(certificates.cert),
        "LATCHKEY_TLS_KEY": str(certificates.key),
        "LATCHKEY_PORT": "0",
    }


def test_the_doctor_finds_a_healthy_machine_healthy(complete: dict[str, str], tmp_path: Path) -> None:
    told = typed("doctor", "--data", tmp_path / "none", **complete)
    assert told.returncode == 0, told.stdout
    for about in (
        *("python", "disk", "database", "schema", "clock", "nodes", "size", "connections", "replication"),
        *("secret key", "tls", "port"),
    ):
        assert f"✓ {about}" in told.stdout, told.stdout


def test_more_connections_than_postgresql_accepts_are_no_reason_to_refuse_but_said(
    complete: dict[str, str], tmp_path: Path
) -> None:
    told = typed("doctor", "--data", tmp_path / "none", **complete, LATCHKEY_WORKERS="20")
    assert told.returncode == 0, told.stdout
    assert "· connections  LATCHKEY_DATABASE_CONNECTIONS allows 21 processes 10 connections each" in told.stdout
    assert "✓ connections" in typed("doctor", "--data", tmp_path / "none", **complete, LATCHKEY_WORKERS="2").stdout


# Changes to complete settings ("" removes one), and what is said of them.
REFUSED: list[tuple[dict[str, str], str]] = [
    ({"LATCHKEY_DATABASE_URL": ""}, "LATCHKEY_DATABASE_URL is set but empty"),
    # A database that is away is no wrong setting, but is named beside one.
    (
        {"LATCHKEY_DATABASE_URL": "postgresql://b:hunter2@127.0.0.1:1/x", "LATCHKEY_LOG_LEVEL": "loud"},
        "cannot be reached",
    ),
    (
        {"LATCHKEY_DATABASE_URL": "postgresql://b:hunter2@127.0.0.1:1,127.0.0.1:2/x", "LATCHKEY_LOG_LEVEL": "loud"},
        "cannot be reached",
    ),
    ({"LATCHKEY_SECRET_KEY": ""}, "LATCHKEY_SECRET_KEY is missing"),
    ({"LATCHKEY_SECRET_KEY": "short"}, "LATCHKEY_SECRET_KEY"),
    ({"LATCHKEY_TLS_CERT": "", "LATCHKEY_TLS_KEY": ""}, "in the clear"),
    ({"LATCHKEY_TLS_KEY": ""}, "LATCHKEY_TLS_KEY is missing"),
    ({"LATCHKEY_TLS_CERT": "/nowhere.pem"}, "/nowhere.pem"),
    (
        {"LATCHKEY_TLS_CERT": "", "LATCHKEY_TLS_KEY": "", "LATCHKEY_BEHIND_PROXY": "1", "LATCHKEY_HOST": "0.0.0.0"},
        "can be reached from outside",
    ),
    ({"LATCHKEY_HOST": "example.com"}, "LATCHKEY_HOST"),
    ({"LATCHKEY_ROLES": "cook"}, "some of api, clock, delivery"),
    ({"LATCHKEY_LOG_LEVEL": "loud", "LATCHKEY_WORKERS": "many"}, "LATCHKEY_WORKERS"),
    ({"LATCHKEY_SECRETKEY": KEY}, "LATCHKEY_SECRETKEY"),
    ({"LATCHKEY_OPENID_ISSUER": "http://login.example.com"}, "LATCHKEY_OPENID_ISSUER"),
    ({"LATCHKEY_CONFIG": "/nowhere.toml"}, "/nowhere.toml"),
    # As in "Running it for real", when nothing but the database is set.
    ({"LATCHKEY_SECRET_KEY": "", "LATCHKEY_TLS_CERT": "", "LATCHKEY_TLS_KEY": ""}, "LATCHKEY_SECRET_KEY is missing"),
]


@pytest.mark.parametrize(("change", "complaint"), REFUSED, ids=[",".join(change) for change, _ in REFUSED])
def test_the_doctor_names_everything_that_serve_refuses(
    complete: dict[str, str], change: dict[str, str], complaint: str, tmp_path: Path
) -> None:
    environment = {**complete, **change}
    refused = typed("serve", **environment)
    assert refused.returncode == 2
    assert complaint in refused.stderr
    assert "hunter2" not in refused.stderr
    problems = re.findall(r"✗ (.+)", refused.stderr)
    assert problems
    told = typed("doctor", "--data", tmp_path / "none", **environment)
    assert told.returncode == 1
    assert "hunter2" not in told.stdout
    for problem in problems:
        for name in re.findall(r"LATCHKEY_\w+", problem):
            assert name in told.stdout, told.stdout
        # The problem has the same words; the remedy is on a line of its own.
        assert problem.partition(" ")[2].partition(". ")[0] in told.stdout, told.stdout


def test_the_doctor_does_not_ask_a_machine_without_the_api_for_a_certificate(
    complete: dict[str, str], tmp_path: Path
) -> None:
    environment = {**complete, "LATCHKEY_TLS_CERT": "", "LATCHKEY_TLS_KEY": "", "LATCHKEY_ROLES": "clock,delivery"}
    told = typed("doctor", "--data", tmp_path / "none", **environment)
    assert told.returncode == 0, told.stdout


def test_the_doctor_of_an_empty_folder_says_what_each_way_of_starting_needs(tmp_path: Path) -> None:
    told = typed("doctor", "--data", tmp_path)
    assert told.returncode == 0
    for words in ("latchkey up", "latchkey serve", "LATCHKEY_SECRET_KEY", "LATCHKEY_TLS_CERT"):
        assert words in told.stdout


def test_the_doctor_says_what_is_wrong_and_what_to_do(empty_database_url: str, tmp_path: Path) -> None:
    (taken,) = bind("127.0.0.1", 0, 1)
    told = typed(
        "doctor",
        "--data",
        tmp_path,
        LATCHKEY_DATABASE_URL=empty_database_url,
        LATCHKEY_PORT=str(taken.getsockname()[1]),
        LATCHKEY_TLS_CERT=str(tmp_path / "missing.pem"),
        LATCHKEY_WORKERS="many",
    )
    taken.close()
    assert told.returncode == 1
    for words in ("✗ schema", "latchkey migrate", "✗ port", "is taken", "✗ tls", "✗ setting", "LATCHKEY_WORKERS"):
        assert words in told.stdout, told.stdout


async def test_a_secret_key_that_opens_nothing_here_is_found_by_the_doctor_and_refused_by_serve(
    database_url: str, tmp_path: Path
) -> None:
    async with Database(database_url, max_size=2) as database:
        await ensure_demo(database, real_now(), secret_key=None, public_key=None)
        setup = Setup(name="Billing", url="https://example.com/hook")
        await Registry(database, Sealer(b"a" * 32)).add("proj_demo", setup, real_now())
    right, wrong = (base64.b64encode(letter * 32).decode() for letter in (b"a", b"b"))
    environment = {"LATCHKEY_DATABASE_URL": database_url, "LATCHKEY_PORT": "0", "LATCHKEY_BEHIND_PROXY": "true"}
    told = await asyncio.to_thread(typed, "doctor", "--data", tmp_path, LATCHKEY_SECRET_KEY=right, **environment)
    assert "✓ secret key" in told.stdout
    told = await asyncio.to_thread(typed, "doctor", "--data", tmp_path, LATCHKEY_SECRET_KEY=wrong, **environment)
    assert (told.returncode, "✗ secret key" in told.stdout) == (1, True)
    told = await asyncio.to_thread(latchkey, "serve", LATCHKEY_SECRET_KEY=wrong, LATCHKEY_ROLES="clock", **environment)
    assert told.returncode == 2
    assert "LATCHKEY_SECRET_KEY does not decrypt the webhook secrets in this database." in told.stderr


def test_the_doctor_says_to_create_a_database_that_does_not_exist(database_url: str, tmp_path: Path) -> None:
    url = re.sub(r"/[^/?]+(\?|$)", r"/no_such\1", database_url, count=1)
    told = typed("doctor", "--data", tmp_path, LATCHKEY_DATABASE_URL=url)
    assert told.returncode == 1
    assert "Create the database, or correct LATCHKEY_DATABASE_URL." in told.stdout
    assert "Start it" not in told.stdout


def test_the_doctor_never_shows_a_password(tmp_path: Path) -> None:
    told = typed("doctor", "--data", tmp_path, LATCHKEY_DATABASE_URL="postgresql://b:hunter2@127.0.0.1:1/x")
    assert told.returncode == 1
    assert "✗ database" in told.stdout
    assert "hunter2" not in told.stdout + told.stderr


async def test_the_doctor_says_what_is_wrong_with_the_database_as_a_whole(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here: more dead rows than vacuum should leave, and how large the tables are."""

    async def tables(*_: object) -> tuple[list[Table], list[PartitionReport]]:
        return [Table("lanes", 1_000, 5 * 1024**3, 400_000)], []

    monkeypatch.setattr(looking, "tables", tables)
    found = {one.about: one for one in await deployment(database.url, real_now())}
    assert "lanes 5.0 GiB" in found["size"].words
    assert "one PostgreSQL server" in found["nodes"].words
    assert found["autovacuum"].mark == "unknown"
    assert "400,000 dead rows" in found["autovacuum"].words
    assert "up to date with all events; their tables take" in found["customer lists"].words


def test_the_doctor_says_how_far_customer_lists_are_behind() -> None:
    behind = ListsReport(1_200, 90_000, customers=1_000, more=True, bytes=5 * 1024**3)
    *_, told = told_about(replace(QUIET, lists=behind))
    assert told.words == (
        "1,200 events behind, the first of them for 90 s, "
        "1,000 or more new customers are not counted yet; their tables take 5.0 GiB"
    )


async def test_a_database_user_who_may_see_nothing_does_not_stop_the_doctor(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def server(*_: object) -> None:
        raise asyncpg.InsufficientPrivilegeError("permission denied for function pg_database_size")

    monkeypatch.setattr(looking, "server", server)
    (told,) = await deployment(database.url, real_now())
    assert told.mark == "unknown"
    assert "permission denied" in told.words
