"""Settings from the environment, files and the command line, those for mail, and how many processors count."""

import base64
import os
import re
import tomllib
from ipaddress import ip_network
from pathlib import Path
from socket import AF_INET, SOCK_STREAM, socket
from typing import Any

import pytest

from latchkey import settings
from latchkey import settings as cpus
from latchkey.database.pool import Database
from latchkey.process.doctor import mail
from latchkey.process.safety import problems_of, problems_of_connections
from latchkey.settings import Settings, SettingsRefusedError, available_cpus, load
from latchkey.subjects.mail.usecases import mail_of, way_of

DOCUMENT = Path(__file__).parents[2] / "docs" / "latchkey.toml"
KEY = base64.b64encode(bytes(range(32))).decode()


def test_the_environment_wins_over_the_file_and_the_command_line_over_both(tmp_path: Path) -> None:
    config = tmp_path / "latchkey.toml"
    config.write_text('port = 1\nhost = "10.0.0.1"\nroles = ["clock"]\nworkers = 3\n')
    settings = load({"LATCHKEY_PORT": "2", "LATCHKEY_HOST": "10.0.0.2"}, config, {"port": 3, "host": None})
    assert (settings.port, settings.host, settings.roles, settings.workers) == (3, "10.0.0.2", ("clock",), 3)


def test_the_file_may_be_named_in_the_environment(tmp_path: Path) -> None:
    config = tmp_path / "latchkey.toml"
    config.write_text("port = 77\n")
    assert load({"LATCHKEY_CONFIG": str(config)}).port == 77


def test_a_secret_may_be_in_a_file_of_its_own(tmp_path: Path) -> None:
    url, key = tmp_path / "url", tmp_path / "key"
    url.write_text("postgresql://u:hunter2@db/x\n")
    key.write_text(KEY)
    environ = {"LATCHKEY_DATABASE_URL_FILE": str(url), "LATCHKEY_SECRET_KEY_FILE": str(key)}
    settings = load(environ)
    assert (settings.database_url, settings.secret_key) == ("postgresql://u:hunter2@db/x", bytes(range(32)))
    # Over the settings file, as every variable.
    config = tmp_path / "latchkey.toml"
    config.write_text('database_url = "postgresql://other/x"\n')
    config.chmod(0o600)
    assert load(environ, config).database_url == "postgresql://u:hunter2@db/x"


def test_a_file_with_a_secret_must_be_there_with_one_line_and_no_variable_beside_it(tmp_path: Path) -> None:
    two, empty, short = tmp_path / "two", tmp_path / "empty", tmp_path / "short"
    two.write_text("hunter2\nhunter3\n")
    empty.write_text("\n")
    short.write_text("hunter2")
    for path, complaint in (
        (two, "must have one line"),
        (empty, "must have one line"),
        (tmp_path / "absent", "cannot be read (No such file or directory)"),
        (short, "must be 32 random bytes in base64"),
    ):
        with pytest.raises(SettingsRefusedError) as refused:
            load({"LATCHKEY_SECRET_KEY_FILE": str(path)})
        assert complaint in str(refused.value)
        assert "hunter" not in str(refused.value)
    with pytest.raises(SettingsRefusedError, match="is set, and LATCHKEY_SECRET_KEY too"):
        load({"LATCHKEY_SECRET_KEY_FILE": str(short), "LATCHKEY_SECRET_KEY": KEY})
    with pytest.raises(SettingsRefusedError, match="Did you mean LATCHKEY_TLS_KEY"):
        load({"LATCHKEY_TLS_KEYS": str(short)})


def test_an_empty_variable_counts_as_not_set() -> None:
    assert load({"LATCHKEY_PORT": "", "LATCHKEY_SECRET_KEY": ""}) == Settings()


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("PORT", "eighty", "whole number from 0 to 65535"),
        ("PORT", "70000", "whole number from 0 to 65535"),
        ("PORT", "tcp://10.0.0.1:443", "enableServiceLinks"),
        ("WORKERS", "-1", "whole number from 0 to 256"),
        ("BEHIND_PROXY", "perhaps", "true or false"),
        ("ROLES", "api,cook", "some of api, clock, delivery"),
        ("ROLES", ",", "some of api, clock, delivery"),
        ("LOG_LEVEL", "loud", "one of debug, info, warning, error"),
        ("WEBHOOK_ALLOW_NETWORKS", "10.0.0.1/8", "networks such as 10.0.0.0/8, separated by commas"),
        ("TLS_CERT", "~nobody-of-this-name/cert.pem", "the path of a file"),
        ("SECRET_KEY", "short", "openssl rand -base64 32"),
        ("SECRET_KEY", base64.b64encode(b"x" * 31).decode(), "32 random bytes"),
    ],
)
def test_a_malformed_setting_says_which_and_what_it_must_be(name: str, value: str, complaint: str) -> None:
    with pytest.raises(SettingsRefusedError) as refused:
        load({f"LATCHKEY_{name}": value})
    assert f"LATCHKEY_{name}" in str(refused.value)
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("port", " 80 ", 80),
        ("statement_timeout_ms", "30_000", 30_000),
        ("behind_proxy", " Yes ", True),
        ("behind_proxy", "ON", True),
        ("behind_proxy", "1", True),
        ("behind_proxy", "off", False),
        ("log_level", " Warning", "warning"),
        ("roles", "clock, api,clock", ("clock", "api")),
        ("webhook_allow_networks", "10.0.0.0/8, ,fd00::/8", (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))),
        ("webhook_allow_networks", " ", ()),
        ("tls_cert", "~/cert.pem", Path.home() / "cert.pem"),
        ("secret_key", f" {KEY}\n", bytes(range(32))),
        ("openid_name", " as it is ", " as it is "),
    ],
)
def test_a_text_is_read_as_people_write_it(name: str, text: str, value: Any) -> None:
    assert getattr(load({f"LATCHKEY_{name.upper()}": text}), name) == value


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('port = "80"', 80),
        ('behind_proxy = "no"', False),
        ('roles = "clock,api"', ("clock", "api")),
        ('roles = [" api ", "api"]', ("api",)),
        ('webhook_allow_networks = ["10.0.0.0/8"]', (ip_network("10.0.0.0/8"),)),
        ('tls_cert = ""', None),
    ],
)
def test_the_file_may_have_texts_and_lists(tmp_path: Path, line: str, value: Any) -> None:
    config = tmp_path / "latchkey.toml"
    config.write_text(line)
    assert getattr(load({}, config), line.partition(" ")[0]) == value


@pytest.mark.parametrize(
    "line",
    [
        "port = 80.0",
        "port = true",
        'port = "80.0"',
        'port = "1e3"',
        "behind_proxy = 1",
        "host = 1",
        "roles = []",
        "roles = [1]",
        'roles = [["api"]]',
        "log_level = true",
        "webhook_allow_networks = 10",
        "webhook_allow_networks = [10]",
        "tls_cert = 1",
        "tls_cert = true",
    ],
)
def test_a_value_of_another_type_is_refused(tmp_path: Path, line: str) -> None:
    config = tmp_path / "latchkey.toml"
    config.write_text(line)
    with pytest.raises(SettingsRefusedError) as refused:
        load({}, config)
    assert str(refused.value).startswith(f"{line.partition(' ')[0]}: must ")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("DATABSE_URL", "DATABASE_URL"), ("TSL_CERT", "TLS_CERT"), ("ROLE", "ROLES"), ("SECRETKEY", "SECRET_KEY")],
)
def test_a_misspelt_variable_is_told_what_was_meant(name: str, meant: str) -> None:
    with pytest.raises(SettingsRefusedError) as refused:
        load({f"LATCHKEY_{name}": "x"})
    assert str(refused.value) == f"LATCHKEY_{name}: is not a setting. Did you mean LATCHKEY_{meant}?"


@pytest.mark.parametrize("name", ["KEY", "CONSUMER_DATABASE_URL", "CONSUMER_TLS_KEY", "SERVICE_HOST", "PORT_8443_TCP"])
def test_a_variable_of_somebody_else_with_our_prefix_is_left_alone(name: str) -> None:
    assert load({f"LATCHKEY_{name}": "x"}) == Settings()


def test_a_malformed_secret_is_not_repeated() -> None:
    with pytest.raises(SettingsRefusedError) as refused:
        load({"LATCHKEY_SECRET_KEY": "hunter2hunter2"})
    assert "hunter2" not in str(refused.value)


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
    config = tmp_path / "latchkey.toml"
    config.write_text('wrokers = 3\nport = 1.5\nsecret_key = "x"\nlog_level = 3\n')
    config.chmod(0o644)
    with pytest.raises(SettingsRefusedError) as refused:
        load({"LATCHKEY_ROLES": "x"}, config)
    assert [problem.setting for problem in refused.value.problems] == [
        "wrokers", "config", "port", "secret_key", "log_level", "LATCHKEY_ROLES",
    ]  # fmt: skip
    assert "Did you mean workers?" in str(refused.value)
    assert "chmod 600" in str(refused.value)


@pytest.mark.parametrize(("text", "complaint"), [(None, "cannot be read"), ("port = ", "is not TOML")])
def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path, text: str | None, complaint: str) -> None:
    if text is not None:
        (tmp_path / "latchkey.toml").write_text(text)
    with pytest.raises(SettingsRefusedError, match=complaint):
        load({}, tmp_path / "latchkey.toml")


def test_secrets_are_not_in_the_representation() -> None:
    settings = load(
        {
            "LATCHKEY_SECRET_KEY": KEY,
            "LATCHKEY_DATABASE_URL": "postgresql://bob:hunter2@db/x",
            "LATCHKEY_OPENID_CLIENT_SECRET": "hunter2",
        }
    )
    assert settings.secret_key == bytes(range(32))
    assert settings.openid_client_secret == "hunter2"
    assert "hunter2" not in repr(settings)
    assert "secret_key" not in repr(settings)


def test_the_documented_file_lists_every_setting_with_its_default_and_its_variable(tmp_path: Path) -> None:
    text = DOCUMENT.read_text()
    uncommented = re.sub(r"^# ([a-z_]+ = )", r"\1", text, flags=re.MULTILINE)
    documented: dict[str, Any] = tomllib.loads(uncommented)
    defaults = {name: getattr(Settings(), name) for name in Settings.__struct_fields__}
    shown = {
        name: list(value) if isinstance(value, tuple) else "" if value in (None, b"") else value
        for name, value in defaults.items()
    }
    assert documented == shown
    for name in documented:
        assert f"LATCHKEY_{name.upper()}" in text
    assert tomllib.loads(text) == {}, "The file as it is changes nothing."


SENDER = "Latchkey <no-reply@example.com>"
GOOD: dict[str, Any] = {"smtp_host": "mail.example.com", "mail_from": SENDER, "public_url": "https://x.example.com"}


@pytest.mark.parametrize(
    ("changed", "about"),
    [
        ({}, None),
        ({"mail_from": "no-reply@example.com", "public_url": "https://x.example.com:8443/"}, None),
        ({"mail_from": ""}, "LATCHKEY_MAIL_FROM"),
        ({"mail_from": "Latchkey"}, "LATCHKEY_MAIL_FROM"),
        ({"mail_from": "a@example.com\r\nBcc: eve@example.com"}, "LATCHKEY_MAIL_FROM"),
        ({"public_url": "http://x.example.com"}, "LATCHKEY_PUBLIC_URL"),
        ({"public_url": "https://x.example.com/path"}, "LATCHKEY_PUBLIC_URL"),
        ({"public_url": "https://user:pw@x.example.com"}, "LATCHKEY_PUBLIC_URL"),
        ({"public_url": "x.example.com"}, "LATCHKEY_PUBLIC_URL"),
        ({"mail_folder": Path("/tmp/mail")}, "LATCHKEY_MAIL_FOLDER"),
        ({"smtp_security": "none", "smtp_user": "x"}, "LATCHKEY_SMTP_SECURITY"),
        ({"smtp_security": "none", "smtp_user": "x", "smtp_host": "127.0.0.1"}, None),
        ({"smtp_extra_ca": Path("/nowhere.pem")}, "LATCHKEY_SMTP_EXTRA_CA"),
    ],
)
def test_what_is_wrong_with_mail_is_named(changed: dict[str, Any], about: str | None) -> None:
    found = [problem.setting for problem in problems_of_connections(Settings(**{**GOOD, **changed}))]
    assert found == ([about] if about else [])


def test_mail_needs_the_address_of_its_links() -> None:
    lacking = Settings(**{**GOOD, "public_url": ""})
    assert "LATCHKEY_PUBLIC_URL" in [problem.setting for problem in problems_of(lacking, 0)]


async def test_without_settings_there_is_no_mail(database: Database) -> None:
    assert mail_of(database, Settings()) is None
    assert await mail(Settings()) is None
    assert way_of(Settings(**GOOD, smtp_password="hunter2")) is not None
    assert "hunter2" not in repr(Settings(**GOOD, smtp_password="hunter2"))


async def test_the_doctor_tries_the_mail_server(tmp_path: Path) -> None:
    found = await mail(Settings(mail_folder=tmp_path / "mail", public_url=GOOD["public_url"]))
    assert found is not None
    assert (found.mark, str(tmp_path / "mail") in found.words) == ("good", True)
    with socket(AF_INET, SOCK_STREAM) as nobody:
        # Bound and not listening: connections are refused, and nobody else gets the port.
        nobody.bind(("127.0.0.1", 0))
        settings = Settings(**{**GOOD, "smtp_host": "127.0.0.1"}, smtp_port=nobody.getsockname()[1])
        found = await mail(settings)
    assert found is not None
    assert (found.mark, "ConnectionRefusedError" in found.words) == ("bad", True)


@pytest.fixture(autouse=True)
def eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


def counted(folder: Path, group: str, files: dict[str, str]) -> int:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    own = folder / "own"
    own.write_text(group)
    return available_cpus(folder, own)


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        # In a container, its own group is the root that it sees.
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "20000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 8),
        ("0::/\n", {"cpu.max": "9900000 100000\n"}, 8),
        ("0::/\n", {}, 8),
        # A unit of systemd: its quota, and that of the slice above it.
        ("0::/system.slice/latchkey.service\n", {"system.slice/latchkey.service/cpu.max": "300000 100000\n"}, 3),
        (
            "0::/system.slice/latchkey.service\n",
            {"system.slice/latchkey.service/cpu.max": "max 100000\n", "system.slice/cpu.max": "400000 100000\n"},
            4,
        ),
        # The first version, where each controller has a tree. In a container the path is the host's.
        (
            "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n",
            {"cpu/cpu.cfs_quota_us": "250000\n", "cpu/cpu.cfs_period_us": "100000\n"},
            3,
        ),
        ("4:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        # What we do not understand limits nothing.
        ("0::/\n", {"cpu.max": "much\n"}, 8),
        ("0::/\n", {"cpu.max": "100000 0\n"}, 8),
    ],
)
def test_a_quota_counts_as_so_many_processors(group: str, files: dict[str, str], expected: int, tmp_path: Path) -> None:
    assert counted(tmp_path, group, files) == expected


def test_the_set_of_processors_counts_where_it_is_smaller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 5})
    assert counted(tmp_path, "0::/\n", {"cpu.max": "300000 100000\n"}) == 2


def test_a_machine_without_control_groups_has_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert available_cpus(tmp_path, tmp_path / "none") == 8
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cpus.available_cpus(tmp_path, tmp_path / "none") == 1


def test_by_default_there_is_one_process_for_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "available_cpus", lambda: 6)
    assert (Settings().api_processes, Settings().processes) == (6, 7)
    assert (Settings(workers=2).api_processes, Settings(workers=2, roles=("api",)).processes) == (2, 2)
    assert Settings(roles=("clock", "delivery")).processes == 1
