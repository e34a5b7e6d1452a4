"""Refuses unsafe settings at start. All problems are reported at once, each with what to do."""

import ipaddress
import stat
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.utils import parseaddr
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from latchkey.database import database_identity, migrate
from latchkey.database.errors import RestoredError, StorageError, WrongAddressError
from latchkey.database.pool import connect
from latchkey.database.servers import IN_TRANSACTION_MODE, connection_slots, shares_sessions
from latchkey.database_address import without_password
from latchkey.domain.refusal import Refusal
from latchkey.settings import Problem, Settings, control_urls
from latchkey.subjects.accounts.rules import checked_email

_SHORTEST_KEY = 16
_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})


def problems_of(settings: Settings, now_ms: int, malformed: Sequence[Problem] = ()) -> list[Problem]:
    """Everything that can be checked without a database. What is malformed is not reported a second time."""
    unsafe = *_required(settings), *_transport(settings, now_ms), *_metrics(settings)
    reported = {problem.about for problem in malformed}
    found = (*unsafe, *problems_of_connections(settings))
    return [*malformed, *(problem for problem in found if problem.about not in reported)]


def _required(settings: Settings) -> Iterator[Problem]:
    if not settings.database_url:
        yield Problem(
            "LATCHKEY_DATABASE_URL",
            "is missing.",
            "Set it to a PostgreSQL address such as postgresql://user@host/latchkey, or try `latchkey up`.",
        )
    if not settings.secret_key:
        yield Problem(
            "LATCHKEY_SECRET_KEY",
            "is missing; webhook secrets could not be kept encrypted.",
            "Make one with `openssl rand -base64 32` and keep it for as long as the database.",
        )
    if (settings.smtp_host or settings.mail_folder) and not settings.public_url:
        yield Problem(
            "LATCHKEY_PUBLIC_URL",
            "is missing, and mails need the address of their links.",
            "Set it to the address that people type, such as https://latchkey.example.com.",
        )


def _metrics(settings: Settings) -> Iterator[Problem]:
    if _address(settings.metrics_host) is None:
        wrong = f"{settings.metrics_host} is not an IP address."
        yield Problem("LATCHKEY_METRICS_HOST", wrong, "Give the address to listen on.")
    if settings.metrics_key and len(settings.metrics_key) < _SHORTEST_KEY:
        wrong = f"has fewer than {_SHORTEST_KEY} characters."
        yield Problem("LATCHKEY_METRICS_KEY", wrong, "Make one with `openssl rand -hex 32`.")
    if settings.otel and find_spec("opentelemetry.sdk") is None:
        wrong = "needs OpenTelemetry's SDK, which is not installed."
        yield Problem("LATCHKEY_OTEL", wrong, "Install it with `pip install 'latchkey[otel]'`.")


def problems_of_connections(settings: Settings) -> Iterator[Problem]:
    """Settings that would prevent outgoing connections: to webhook receivers, and to the OpenID provider."""
    yield from _authorities("LATCHKEY_WEBHOOK_EXTRA_CA", settings.webhook_extra_ca)
    yield from _authorities("LATCHKEY_STORE_EXTRA_CA", settings.store_extra_ca)
    rates = settings.exchange_rates
    # A file may not be there yet; an address must be one that can be called.
    if "://" in rates and not (rates.startswith("https://") and urlsplit(rates).hostname):
        remedy = "Give the path of a file, or an https:// address."
        yield Problem("LATCHKEY_EXCHANGE_RATES", "is not an https:// address.", remedy)
    yield from _mail(settings)
    if "api" in settings.roles:
        yield from _openid(settings)
        try:
            control_urls(settings.store_emulators)
        except ValueError as error:
            remedy = "Name store emulators on this machine only, or leave it empty."
            yield Problem("LATCHKEY_STORE_EMULATORS", f"{error}.", remedy)


async def problems_of_database(connection: Any) -> list[Problem]:
    """Whether the database has the schema this code expects, and was not restored from a backup."""
    try:
        await migrate.require_current(connection)
        await database_identity.require_settled(connection)
    except RestoredError as error:
        return [Problem("database", str(error), "")]
    except StorageError as error:
        return [Problem("schema", str(error), "")]
    return []


async def require_sessions(url: str, connection: Any) -> None:
    """Refuses a pooler in transaction mode between us and PostgreSQL."""
    other = await connect(url, application_name="latchkey start", connect_timeout=10)
    try:
        if await shares_sessions(connection, other):
            raise WrongAddressError(f"The database at {without_password(url)} cannot be used: {IN_TRANSACTION_MODE}.")
    finally:
        await other.close()


async def room_for_connections(settings: Settings, connection: Any) -> Problem | None:
    """Whether PostgreSQL accepts as many connections as our processes may open. Not a reason to refuse to start: they
    open more than one only under load."""
    needed = settings.processes * settings.database_connections
    available = await connection_slots(connection)
    if needed <= available:
        return None
    wrong = (
        f"allows {settings.processes} processes {settings.database_connections} connections each, so {needed} in all, "
        f"but PostgreSQL accepts {available}."
    )
    remedy = (
        "Raise max_connections of PostgreSQL, or lower LATCHKEY_DATABASE_CONNECTIONS or LATCHKEY_WORKERS. "
        "Other machines and programs that use the same server need connections too."
    )
    return Problem("LATCHKEY_DATABASE_CONNECTIONS", wrong, remedy)


def _transport(settings: Settings, now_ms: int) -> Iterator[Problem]:
    if "api" not in settings.roles:
        return
    address, cert, key = _address(settings.host), settings.tls_cert, settings.tls_key
    if address is None:
        yield Problem("LATCHKEY_HOST", f"{settings.host} is not an IP address.", "Give the address to listen on.")
    elif cert is not None and key is not None:
        yield from _certificate(cert, key, now_ms)
    elif cert is not None or key is not None:
        missing = "LATCHKEY_TLS_CERT" if cert is None else "LATCHKEY_TLS_KEY"
        yield Problem(missing, "is missing while the other half is set.", "Set both.")
    elif not settings.behind_proxy:
        yield Problem(
            "LATCHKEY_TLS_CERT, LATCHKEY_TLS_KEY",
            "are missing, and keys and personal data would travel in the clear.",
            "Set both, or set LATCHKEY_BEHIND_PROXY=true when a proxy in front ends TLS.",
        )
    elif address.is_unspecified or not (address.is_private or address.is_loopback):
        yield Problem(
            "LATCHKEY_HOST",
            f"{settings.host} can be reached from outside, and there is no TLS.",
            "Bind the private address the proxy uses (such as 127.0.0.1), or set LATCHKEY_TLS_CERT and _KEY.",
        )


def _mail(settings: Settings) -> Iterator[Problem]:
    yield from _authorities("LATCHKEY_SMTP_EXTRA_CA", settings.smtp_extra_ca)
    if settings.public_url and not _is_origin(settings.public_url):
        remedy = "Give the address alone, such as https://latchkey.example.com."
        yield Problem("LATCHKEY_PUBLIC_URL", "is not an https:// address without a path.", remedy)
    if not settings.smtp_host:
        return
    if settings.mail_folder:
        yield Problem("LATCHKEY_MAIL_FOLDER", "is set beside LATCHKEY_SMTP_HOST.", "Set one of them.")
    if not _is_sender(settings.mail_from):
        wrong = "is not an e-mail address, or a name with one." if settings.mail_from else "is missing."
        remedy = "Set it to the sender of mails, such as Latchkey <no-reply@example.com>."
        yield Problem("LATCHKEY_MAIL_FROM", wrong, remedy)
    if settings.smtp_user and settings.smtp_security == "none" and settings.smtp_host not in _THIS_MACHINE:
        wrong = "is none, and the password would travel in the clear."
        yield Problem("LATCHKEY_SMTP_SECURITY", wrong, "Use starttls or tls.")


def _is_origin(url: str) -> bool:
    try:
        parts = urlsplit(url.rstrip("/"))
        _ = parts.port
    except ValueError:
        return False
    plain = not (parts.path or parts.query or parts.fragment or parts.username or parts.password)
    return parts.scheme == "https" and bool(parts.hostname) and plain and url.isprintable() and " " not in url


def _is_sender(text: str) -> bool:
    """An address, or a name and an address in angle brackets."""
    name, address = parseaddr(text)
    try:
        checked_email(address)
    except Refusal:
        return False
    return text.isprintable() and "\n" not in name


def _openid(settings: Settings) -> Iterator[Problem]:
    """Either all OpenID settings or none, and only over a connection that is encrypted."""
    three = {
        "LATCHKEY_OPENID_ISSUER": settings.openid_issuer,
        "LATCHKEY_OPENID_CLIENT_ID": settings.openid_client_id,
        "LATCHKEY_OPENID_CLIENT_SECRET": settings.openid_client_secret,
    }
    if not any(three.values()):
        return
    for name in [name for name, value in three.items() if not value]:
        yield Problem(name, "is missing while others of OpenID Connect are set.", "Set all three, or none.")
    parts = urlsplit(settings.openid_issuer)
    whole = parts.scheme == "https" and bool(parts.hostname) and not parts.query and not parts.fragment
    if settings.openid_issuer and not whole:
        wrong = f"{settings.openid_issuer} is not an https:// address without anything behind its path."
        yield Problem("LATCHKEY_OPENID_ISSUER", wrong, "Give the issuer as the provider writes it.")
    if not settings.openid_name.strip():
        yield Problem("LATCHKEY_OPENID_NAME", "is empty.", "It stands on the button: Continue with ...")
    yield from _authorities("LATCHKEY_OPENID_EXTRA_CA", settings.openid_extra_ca)


def _authorities(name: str, file: Path | None) -> Iterator[Problem]:
    try:
        if file is not None:
            x509.load_pem_x509_certificates(file.read_bytes())
    except (OSError, ValueError) as error:
        yield Problem(name, f"{file} cannot be used: {_reason(error)}.", "Give a PEM file with certificates.")


def _certificate(cert: Path, key: Path, now_ms: int) -> Iterator[Problem]:
    chain = private = None
    try:
        chain = x509.load_pem_x509_certificates(cert.read_bytes())[0]
    except (OSError, ValueError, IndexError) as error:
        yield Problem("LATCHKEY_TLS_CERT", f"{cert} cannot be used: {_reason(error)}.", "Give a PEM certificate.")
    try:
        if key.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            yield Problem("LATCHKEY_TLS_KEY", f"{key} can be read by others.", f"Run `chmod 600 {key}`.")
        private = load_pem_private_key(key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        yield Problem("LATCHKEY_TLS_KEY", f"{key} cannot be used: {_reason(error)}.", "Give an unencrypted PEM key.")
    if chain is None:
        return
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    begins, ends = chain.not_valid_before_utc, chain.not_valid_after_utc
    if ends <= now:
        yield Problem("LATCHKEY_TLS_CERT", f"{cert} expired on {ends.date().isoformat()}.", "Renew it.")
    if begins > now:
        wrong = f"{cert} is not valid before {begins.date().isoformat()}."
        yield Problem("LATCHKEY_TLS_CERT", wrong, "Check this machine's clock.")
    spki = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if private and chain.public_key().public_bytes(*spki) != private.public_key().public_bytes(*spki):
        wrong = f"{key} does not belong to {cert}."
        yield Problem("LATCHKEY_TLS_KEY", wrong, "Give the key the certificate was made with.")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        return None


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else (str(error) or type(error).__name__)
