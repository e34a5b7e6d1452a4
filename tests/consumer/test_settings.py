"""Settings: documented, read from the environment, refused all at once."""

import re
from pathlib import Path

import pytest

from latchkey.consumer.consumer_errors import SettingsError
from latchkey.consumer.consumer_settings import PREFIX, Settings
from tests.consumer.world import settings

PAGE = Path(__file__).parents[2] / "docs" / "consumer.md"
NEEDED = {
    "LATCHKEY_CONSUMER_SERVICE_URL": "https://billing.example.com",
    "LATCHKEY_CONSUMER_PROJECT_ID": "proj",
    "LATCHKEY_CONSUMER_API_KEY": "sk_x",
    "LATCHKEY_CONSUMER_WEBHOOK_SECRET": "secret",
}


def test_the_page_lists_every_setting_with_its_default() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| (?:`(.*?)`)? ?\|", PAGE.read_text(), re.MULTILINE)
    assert [name.lower() for name, _ in rows] == sorted(
        Settings.__struct_fields__, key=[name.lower() for name, _ in rows].index
    )
    plain = Settings()
    for name, shown in rows:
        value = getattr(plain, name.lower())
        expected = ",".join(value) if isinstance(value, tuple) else value
        expected = str(expected).lower() if isinstance(expected, bool) else str(expected)
        assert shown == expected, name


def test_the_environment_is_read_in_every_kind() -> None:
    read = Settings.from_env(
        {
            **NEEDED,
            PREFIX + "VERIFY_ONLY_IF_STILL_AHEAD": "true",
            PREFIX + "PORT": "9000",
            PREFIX + "SIGNING_SECRETS": "whsec_a, whsec_b",
            PREFIX + "ON_ERROR": "retry",
            PREFIX + "JWT_ALGORITHMS": "ES256",
            PREFIX + "LOG_LEVEL": "",
        }
    )
    assert (read.verify_only_if_still_ahead, read.port, read.signing_secrets) == (True, 9000, ("whsec_a", "whsec_b"))
    assert (read.on_error, read.jwt_algorithms, read.log_level) == ("retry", ("ES256",), "info")


@pytest.mark.parametrize("name", ["NODE_ENV", "APP_ENV"])
def test_production_is_known_by_either_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.from_env({**NEEDED, name: "production"}).production
    assert not Settings.from_env({**NEEDED, name: "staging"}).production
    monkeypatch.setenv(name, "production")
    assert Settings().production


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "eighty"), ("PORT", "70000"), ("VERIFY_ONLY_IF_STILL_AHEAD", "perhaps"), ("ON_ERROR", "ignore"),
        ("SERVICE_URL", "http://billing.example.com"), ("SERVICE_URL", "http://localhost:8443"),
        ("SERVICE_CA", "/nowhere.pem"), ("SERVICE_CA", __file__), ("DATABASE_URL", "mysql://x"),
        ("JWT_SECRET", "short"),
        ("JWT_PUBLIC_KEY", "/nowhere.pem"), ("JWT_ALGORITHMS", "none"), ("VERIFY_TIMEOUT_MS", "0"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.from_env({**NEEDED, PREFIX + name: value})
    assert [found for found, _ in refused.value.problems] == [name.lower()]


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.from_env({PREFIX + "PORT": "x", PREFIX + "ON_ERROR": "y"})
    assert {name for name, _ in refused.value.problems} == {
        "port", "on_error", "service_url", "project_id", "api_key", "webhook_secret",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({}, "tls_cert"),
        ({"behind_proxy": True}, None),
        ({"behind_proxy": True, "host": "0.0.0.0"}, "host"),
        ({"behind_proxy": True, "host": "8.8.8.8"}, "host"),
        ({"behind_proxy": True, "host": "example.com"}, "host"),
        ({"tls_cert": "a.pem"}, "tls_cert"),
        ({"tls_cert": "a.pem", "tls_key": "a.key", "host": "0.0.0.0"}, None),
    ],
)
def test_a_server_of_its_own_is_not_open_to_the_world_without_tls(more: dict[str, object], wrong: str | None) -> None:
    found = settings("", **more).transport_problems()
    assert [name for name, _ in found] == ([wrong] if wrong else [])


def test_secrets_are_not_shown() -> None:
    assert "webhook secret" not in repr(settings(""))


def test_a_public_key_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("-----BEGIN PUBLIC KEY-----\n...")
    assert settings("", jwt_public_key=str(tmp_path / "key.pem")).public_key_pem.startswith("-----BEGIN")
