"""What `latchkey up` does with settings of the environment: takes them, says that they do not apply, or refuses."""

import base64
import ipaddress
from pathlib import Path

import pytest

from latchkey.cli.data_folder import DataFolder
from latchkey.now import real_now
from latchkey.process.local_ca.authority import LocalCertificates, ensure_certificates
from latchkey.process.up import up_settings
from latchkey.process.up.up_settings import OWN, settings_for_up
from latchkey.settings import LOOPBACK, ROLES, Settings, SettingsRefusedError

# A value other than the default for every setting, as it stands in the environment.
SAMPLES = {
    "database_url": "postgresql://elsewhere/latchkey",
    "database_connections": "3",
    "statement_timeout_ms": "1000",
    "lock_timeout_ms": "1000",
    "host": "127.0.0.2",
    "port": "8444",
    "tls_cert": "/etc/cert.pem",
    "tls_key": "/etc/key.pem",
    "behind_proxy": "true",
    "roles": "api",
    "workers": "3",
    "shutdown_delay_seconds": "7",
    "drain_seconds": "30",
    "address_requests_per_minute": "100",
    "keys_create_projects": "true",
    "secret_key": base64.b64encode(b"k" * 32).decode(),
    "webhook_timeout_ms": "1000",
    "webhook_in_flight": "10",
    "webhook_allow_networks": "10.0.0.0/8",
    "webhook_extra_ca": "",
    "operations_url": "https://operations.example.com",
    "attempts_kept_days": "3",
    "store_allow_hosts": "127.0.0.1:9443",
    "store_extra_ca": "",
    "store_emulators": "proj_a/app_b=http://127.0.0.1:9001/control",
    "store_journal_kept_days": "3",
    "temporary_grants": "false",
    "temporary_grants_per_hour": "3",
    "unverified_receipt_bytes_per_day": "2000000",
    "exchange_rates": "/etc/latchkey/rates.csv",
    "charts_folder": "/var/lib/latchkey/charts",
    "export_folder": "/var/lib/latchkey/exports",
    "export_allow_hosts": "minio.example.com:9000",
    "public_url": "https://latchkey.example.com",
    "require_second_factor": "true",
    "smtp_host": "mail.example.com",
    "smtp_port": "465",
    "smtp_security": "tls",
    "smtp_user": "latchkey",
    "smtp_password": "hunter2",
    "smtp_extra_ca": "",
    "mail_from": "Latchkey <no-reply@example.com>",
    "mail_domains": "example.com",
    "mail_folder": "/var/lib/latchkey/mail",
    "openid_issuer": "https://login.example.com",
    "openid_client_id": "latchkey",
    "openid_client_secret": "hunter2",
    "openid_name": "Example",
    "openid_extra_ca": "",
    "metrics_port": "9100",
    "metrics_host": "::1",
    "metrics_key": "0123456789abcdef",
    "otel": "yes",
    "request_log_kept_days": "0",
    "request_log_kept_rows": "500",
    "demo_history": "false",
    "access_log": "no",
    "access_log_one_in": "10",
    "log_level": "debug",
    "log_format": "pretty",
}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> LocalCertificates:
    return ensure_certificates(tmp_path_factory.mktemp("tls"), [], real_now())


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    found = DataFolder(tmp_path)
    found.tls.mkdir()
    return found


@pytest.mark.parametrize("name", Settings.__struct_fields__)
def test_every_setting_is_taken_or_said_not_to_apply(
    name: str, certificates: LocalCertificates, folder: DataFolder
) -> None:
    variable = f"LATCHKEY_{name.upper()}"
    value = str(certificates.authority) if name.endswith("_ca") else SAMPLES[name]
    openid = {f"LATCHKEY_{one.upper()}": SAMPLES[one] for one in SAMPLES if one.startswith("openid_")}
    sender = {"LATCHKEY_MAIL_FROM": SAMPLES["mail_from"]} if name == "smtp_host" else {}
    environ = {**(openid if name.startswith("openid_") else {}), **sender, variable: value}
    chosen = settings_for_up(environ)
    final = chosen.settings(certificates, folder)
    if name in OWN:
        assert [said for said, _ in chosen.ignored] == [variable]
        assert variable not in chosen.taken
        assert getattr(final, name) != getattr(chosen.given, name) or name in ("database_url", "secret_key")
    else:
        assert variable in chosen.taken
        assert not chosen.ignored
        assert getattr(final, name) != getattr(settings_for_up({}).settings(certificates, folder), name)


def test_the_command_line_wins_and_is_not_said_to_be_from_the_environment() -> None:
    chosen = settings_for_up({"LATCHKEY_PORT": "1", "LATCHKEY_HOST": "127.0.0.2"}, port=0, host=None, workers=None)
    assert (chosen.given.port, chosen.given.host) == (0, "127.0.0.2")
    assert list(chosen.taken) == ["LATCHKEY_HOST"]


def test_without_settings_it_is_as_it_always_was(certificates: LocalCertificates, folder: DataFolder) -> None:
    chosen = settings_for_up({"HOME": "/"}, port=None, host=None, workers=None)
    assert not chosen.taken
    assert not chosen.ignored
    final = chosen.settings(certificates, folder, port=5)
    assert (final.host, final.port, final.drain_seconds, final.log_format) == ("127.0.0.1", 5, 10, "json")
    assert final.roles == ROLES
    assert final.webhook_allow_networks == LOOPBACK
    assert final.webhook_extra_ca == certificates.authority


def test_loopback_stays_allowed_and_our_own_authority_trusted(
    certificates: LocalCertificates, folder: DataFolder
) -> None:
    environ = {
        "LATCHKEY_WEBHOOK_ALLOW_NETWORKS": "10.0.0.0/8",
        "LATCHKEY_WEBHOOK_EXTRA_CA": str(certificates.cert),
    }
    final = settings_for_up(environ).settings(certificates, folder)
    assert final.webhook_allow_networks == (*LOOPBACK, ipaddress.ip_network("10.0.0.0/8"))
    assert final.webhook_extra_ca is not None
    bundle = final.webhook_extra_ca.read_bytes()
    assert certificates.authority.read_bytes() in bundle
    assert certificates.cert.read_bytes() in bundle


@pytest.mark.parametrize(
    ("variable", "value", "complaint"),
    [
        ("LATCHKEY_WEBHOOK_EXTRA_CA", "/nowhere.pem", "No such file"),
        ("LATCHKEY_WEBHOOK_EXTRA_CAS", "x", "Did you mean LATCHKEY_WEBHOOK_EXTRA_CA?"),
        ("LATCHKEY_WEBHOOK_TIMEOUT_MS", "soon", "whole number"),
        ("LATCHKEY_STORE_EXTRA_CA", "/nowhere.pem", "No such file"),
        ("LATCHKEY_STORE_EMULATORS", "proj_a/app_b=http://10.0.0.1/control", "not this machine"),
        ("LATCHKEY_STORE_EMULATORS", "http://127.0.0.1/control", "is not PROJECT/APP="),
        ("LATCHKEY_OPENID_ISSUER", "https://login.example.com", "LATCHKEY_OPENID_CLIENT_ID"),
        ("LATCHKEY_EXCHANGE_RATES", "http://rates.example.com/rates.csv", "is not an https:// address"),
    ],
)
def test_a_setting_that_is_wrong_is_refused_as_serve_does(variable: str, value: str, complaint: str) -> None:
    with pytest.raises(SettingsRefusedError, match=complaint.replace("?", r"\?")):
        settings_for_up({variable: value})


def test_settings_of_a_consumer_are_said_not_to_apply() -> None:
    chosen = settings_for_up({"LATCHKEY_CONSUMER_API_KEY": "sk_x"})
    assert [said for said, _ in chosen.ignored] == ["LATCHKEY_CONSUMER_*"]


def test_an_empty_address_of_another_database_does_not_stop_it() -> None:
    assert settings_for_up({"LATCHKEY_DATABASE_URL": ""}).given.database_url == ""


@pytest.mark.parametrize(("cpus", "processes"), [(1, 1), (2, 2), (3, 2), (4, 2), (8, 4), (64, 32)])
def test_its_database_and_the_rest_get_half_of_a_large_machine(
    cpus: int, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up_settings, "available_cpus", lambda: cpus)
    chosen = settings_for_up({})
    assert chosen.api_processes == processes
    assert int(chosen.database["max_connections"]) == max(100, (processes + 1) * 10 + 20)
    assert settings_for_up({"LATCHKEY_WORKERS": "5"}).api_processes == 5
