from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from msgspec.structs import replace

from latchkey.safety import problems_of, problems_of_database, room_for_connections
from latchkey.settings import Settings
from latchkey.storage.database import connect

NOW = datetime.datetime(2026, 11, 15, tzinfo=datetime.UTC)
NOW_MS = int(NOW.timestamp() * 1000)


def write_pair(folder: Path, name: str, *, starts: int = -1, ends: int = 30) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW + datetime.timedelta(days=starts))
        .not_valid_after(NOW + datetime.timedelta(days=ends))
        .sign(key, hashes.SHA256())
    )
    cert_path, key_path = folder / f"{name}.pem", folder / f"{name}.key"
    cert_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path.touch(mode=0o600)
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert_path, key_path


@pytest.fixture
def safe(tmp_path: Path) -> Settings:
    cert, key = write_pair(tmp_path, "good")
    return Settings(database_url="postgresql://db/x", secret_key=b"k" * 32, host="0.0.0.0", tls_cert=cert, tls_key=key)


def said(settings: Settings) -> str:
    return "\n".join(map(str, problems_of(settings, NOW_MS)))


def test_a_public_address_with_tls_is_safe(safe: Settings) -> None:
    assert problems_of(safe, NOW_MS) == []


def test_a_private_address_behind_a_proxy_is_safe(safe: Settings) -> None:
    for host in ("127.0.0.1", "localhost", "10.1.2.3", "::1", "fd00::1"):
        assert said(replace(safe, host=host, tls_cert=None, tls_key=None, behind_proxy=True)) == ""


def test_a_machine_without_the_api_needs_no_tls(safe: Settings) -> None:
    assert said(replace(safe, tls_cert=None, tls_key=None, roles=("clock",))) == ""


def test_a_missing_database_and_a_missing_secret_key_are_both_told(safe: Settings) -> None:
    words = said(replace(safe, database_url="", secret_key=b""))
    assert "LATCHKEY_DATABASE_URL: is missing" in words
    assert "LATCHKEY_SECRET_KEY: is missing" in words
    assert "openssl rand -base64 32" in words


def test_no_tls_and_no_proxy_is_refused(safe: Settings) -> None:
    words = said(replace(safe, host="127.0.0.1", tls_cert=None, tls_key=None))
    assert "in the clear" in words
    assert "LATCHKEY_BEHIND_PROXY" in words


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "8.8.8.8", "2a00::1"])
def test_an_address_reachable_from_outside_without_tls_is_refused(safe: Settings, host: str) -> None:
    words = said(replace(safe, host=host, tls_cert=None, tls_key=None, behind_proxy=True))
    assert f"LATCHKEY_HOST: {host} can be reached from outside" in words


def test_half_a_pair_is_refused(safe: Settings) -> None:
    assert "LATCHKEY_TLS_KEY: is missing" in said(replace(safe, tls_key=None))
    assert "LATCHKEY_TLS_CERT: is missing" in said(replace(safe, tls_cert=None))


def test_a_host_that_is_no_address_is_refused(safe: Settings) -> None:
    assert "not an IP address" in said(replace(safe, host="my.example"))


def test_a_key_that_others_can_read_is_refused(safe: Settings) -> None:
    assert safe.tls_key is not None
    safe.tls_key.chmod(0o640)
    assert f"chmod 600 {safe.tls_key}" in said(safe)


def test_an_expired_certificate_and_a_future_one_are_refused(safe: Settings, tmp_path: Path) -> None:
    cert, key = write_pair(tmp_path, "old", starts=-30, ends=-1)
    assert "expired on 2026-11-14" in said(replace(safe, tls_cert=cert, tls_key=key))
    cert, key = write_pair(tmp_path, "young", starts=2)
    assert "not valid before 2026-11-17" in said(replace(safe, tls_cert=cert, tls_key=key))


def test_a_key_of_another_certificate_is_refused(safe: Settings, tmp_path: Path) -> None:
    _, other = write_pair(tmp_path, "other")
    assert "does not belong to" in said(replace(safe, tls_key=other))


def test_files_that_are_not_there_or_not_pem_are_refused(safe: Settings, tmp_path: Path) -> None:
    (tmp_path / "junk").touch(mode=0o600)
    words = said(replace(safe, tls_cert=tmp_path / "missing", tls_key=tmp_path / "junk"))
    assert "LATCHKEY_TLS_CERT" in words
    assert "No such file" in words
    assert "LATCHKEY_TLS_KEY" in words


def test_openid_connect_is_set_up_wholly_and_over_https_or_not_at_all(safe: Settings, tmp_path: Path) -> None:
    whole = replace(
        safe, openid_issuer="https://login.example.com/realm", openid_client_id="me", openid_client_secret="hunter2"
    )
    assert said(whole) == ""
    assert said(replace(whole, openid_extra_ca=safe.tls_cert)) == ""
    assert "LATCHKEY_OPENID_CLIENT_SECRET: is missing" in said(replace(whole, openid_client_secret=""))
    words = said(replace(safe, openid_client_id="me"))
    assert "LATCHKEY_OPENID_ISSUER: is missing" in words
    assert "LATCHKEY_OPENID_CLIENT_SECRET: is missing" in words
    for bad in ("http://login.example.com", "login.example.com", "https://", "https://x?y=1", "https://x#y"):
        assert f"LATCHKEY_OPENID_ISSUER: {bad} is not" in said(replace(whole, openid_issuer=bad))
    assert "LATCHKEY_OPENID_NAME" in said(replace(whole, openid_name=" "))
    assert "LATCHKEY_OPENID_EXTRA_CA" in said(replace(whole, openid_extra_ca=tmp_path / "missing"))
    # Without the api role nobody can sign in, so nothing is missing.
    assert said(replace(safe, openid_client_id="me", roles=("clock",))) == ""
    assert "hunter2" not in said(replace(whole, openid_issuer="http://x"))


@pytest.mark.parametrize("roles", [("api",), ("delivery",)])
def test_authorities_for_webhooks_are_a_file_with_certificates(
    safe: Settings, tmp_path: Path, roles: tuple[str, ...]
) -> None:
    safe = replace(safe, roles=roles)
    assert said(replace(safe, webhook_extra_ca=safe.tls_cert)) == ""
    (tmp_path / "junk").write_text("no certificate")
    for bad in ("missing", "junk"):
        assert "LATCHKEY_WEBHOOK_EXTRA_CA" in said(replace(safe, webhook_extra_ca=tmp_path / bad))
        assert "LATCHKEY_STORE_EXTRA_CA" in said(replace(safe, store_extra_ca=tmp_path / bad))


async def test_a_migrated_database_is_fine_and_an_empty_one_is_not(database_url: str, empty_database_url: str) -> None:
    for url, complaint in ((database_url, ""), (empty_database_url, "latchkey migrate")):
        connection = await connect(url)
        assert complaint in "".join(map(str, found := await problems_of_database(connection)))
        assert bool(found) == bool(complaint)
        await connection.close()


async def test_more_connections_than_postgresql_accepts_are_said_in_numbers(safe: Settings, database_url: str) -> None:
    connection = await connect(database_url)
    try:
        # Of 100 connections, 3 are the superuser's.
        assert await room_for_connections(replace(safe, workers=8), connection) is None
        doubt = await room_for_connections(replace(safe, workers=9), connection)
        assert "allows 10 processes 10 connections each, so 102 in all, but PostgreSQL accepts 97." in str(doubt)
        assert "Raise max_connections" in str(doubt)
        assert await room_for_connections(replace(safe, workers=9, roles=("api",)), connection) is None
        assert await room_for_connections(replace(safe, workers=9, database_connections=9), connection) is None
    finally:
        await connection.close()
