import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from msgspec.structs import replace

from latchkey.database.pool import connect
from latchkey.database_address import parse, without_password
from latchkey.process.safety import problems_of, problems_of_database, room_for_connections
from latchkey.settings import Settings
from tests.connections import connected

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
    async with connected(connect(database_url)) as connection:
        # Of 100 connections, 3 are the superuser's.
        assert await room_for_connections(replace(safe, workers=8), connection) is None
        doubt = await room_for_connections(replace(safe, workers=9), connection)
        assert "allows 10 processes 10 connections each, so 100 in all, but PostgreSQL accepts 97." in str(doubt)
        assert "Raise max_connections" in str(doubt)
        assert await room_for_connections(replace(safe, workers=9, roles=("api",)), connection) is None
        assert await room_for_connections(replace(safe, workers=9, database_connections=9), connection) is None


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        (
            "postgresql://bob:pw@db1:5432,db2:5433/app?sslmode=require",
            {
                "db1:5432": "postgresql://bob:pw@db1:5432/app?sslmode=require",
                "db2:5433": "postgresql://bob:pw@db2:5433/app?sslmode=require",
            },
        ),
        (
            "postgresql://db1,[::1]:5433,db3/app",
            {
                "db1": "postgresql://db1/app",
                "[::1]:5433": "postgresql://[::1]:5433/app",
                "db3": "postgresql://db3/app",
            },
        ),
        (
            "postgresql:///app?user=bob&host=/run/a,/run/b&port=5432,5433",
            {
                "/run/a:5432": "postgresql:///app?user=bob&host=%2Frun%2Fa&port=5432",
                "/run/b:5433": "postgresql:///app?user=bob&host=%2Frun%2Fb&port=5433",
            },
        ),
        (
            "postgresql://bob@/app?host=/run/a,/run/b",
            {
                "/run/a": "postgresql://bob@/app?host=%2Frun%2Fa",
                "/run/b": "postgresql://bob@/app?host=%2Frun%2Fb",
            },
        ),
        ("postgresql://bob@db/app", {"db": "postgresql://bob@db/app"}),
        ("postgresql:///app?host=/run/a", {"/run/a": "postgresql:///app?host=/run/a"}),
    ],
)
def test_each_host_has_an_address_of_its_own(url: str, hosts: dict[str, str]) -> None:
    found = parse(url)
    assert {host.name: host.url for host in found.hosts} == hosts
    assert found.is_cluster is found.wants_primary is (len(hosts) > 1)


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("mysql://db/app", "must begin with postgresql"),
        ("host=db password=hunter2", "must begin with postgresql"),
        ("postgresql://bob:hunter2@db1,,db2/app", "is empty"),
        ("postgresql://bob:hunter2@db1,db2,/app", "is empty"),
        ("postgresql://bob:hunter2@db1:x,db2/app", "a port must be a number"),
        ("postgresql://bob:hunter2@db1:70000,db2/app", "a port must be a number"),
        ("postgresql:///app?host=/a,/b,/c&port=1,2&password=hunter2", "one port for all hosts"),
        ("postgresql://bob:hunter2@db1,db2/app?target_session_attrs=any", "must be read-write"),
        ("postgresql://bob:hunter2@db1,db2/app?target_session_attrs=standby", "must be read-write"),
        ("postgresql://bob:hunt@er2@db1,db2/app", "percent-encoded"),
        ("postgresql://bob:12/hunter2@db1,db2/app", "percent-encoded"),
        ("postgresql://bob:12#hunter2@db1,db2/app", "percent-encoded"),
        ("postgresql://bob:hunter2@[::1/app", "not a URL"),
    ],
)
def test_an_address_that_cannot_work_is_refused_without_quoting_it(url: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong) as refused:
        parse(url)
    for secret in ("hunter2", "hunt", "er2", "bob"):
        assert secret not in str(refused.value)
        assert secret not in without_password(url)


def test_the_primary_can_be_asked_for_by_name() -> None:
    assert parse("postgresql://db1,db2/app?target_session_attrs=read-write").wants_primary
    assert parse("postgresql://db/app?target_session_attrs=primary").wants_primary
    assert not parse("postgresql://db/app?target_session_attrs=any").wants_primary


def test_several_hosts_are_shown_without_the_password() -> None:
    shown = "postgresql://bob@db1:5432,db2:5433/app"
    assert without_password("postgresql://bob:hunter2@db1:5432,db2:5433/app?password=hunter2") == shown
    assert "hunter2" not in repr(parse("postgresql://bob:hunter2@db1,db2/app"))
