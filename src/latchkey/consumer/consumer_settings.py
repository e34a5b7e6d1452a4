"""Settings, from the environment (`LATCHKEY_CONSUMER_WEBHOOK_SECRET`) or given in code.

`docs/consumer.md` lists them all; a test keeps it equal to this module.
"""

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_type_hints

import msgspec
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import load_pem_x509_certificates
from msgspec import Meta, Struct, field, structs

from latchkey.client.transport import checked
from latchkey.consumer.consumer_errors import SettingsError
from latchkey.consumer.push_texts import read_texts
from latchkey.consumer.storage.consumer_database import checked_url

PREFIX = "LATCHKEY_CONSUMER_"
# HS256 is as strong as its secret, and RFC 7518 asks for as many bits as the hash has.
SHORTEST_SECRET = 32

Port = Annotated[int, Meta(ge=0, le=65_535)]
Milliseconds = Annotated[int, Meta(ge=1, le=60_000)]
Seconds = Annotated[int, Meta(ge=0, le=86_400)]


class Settings(Struct, frozen=True, kw_only=True):
    # The address of the service, and the key for it.
    service_url: str = ""
    project_id: str = ""
    api_key: str = ""
    service_ca: str = ""
    # The Authorization value of webhooks, and their signing secrets (several during a rotation).
    webhook_secret: str = ""
    signing_secrets: tuple[str, ...] = ()
    # The database of the local copy.
    database_url: str = "sqlite:///latchkey-consumer.db"
    # The variants that the specification leaves open.
    verify_only_if_still_ahead: bool = False
    on_error: Literal["set_aside", "retry"] = "set_aside"
    missing_customer: Literal["keep", "inactive"] = "keep"
    # The JWT that identifies the signed-in user, unless the app passes its own function.
    jwt_secret: str = ""
    jwt_public_key: str = ""
    jwt_algorithms: tuple[Literal["HS256", "RS256", "ES256"], ...] = ()
    jwt_claim: str = "sub"
    jwt_audience: str = ""
    jwt_issuer: str = ""
    # The push provider; without all three nothing is sent. `push_on` has the occasions, `push_texts` a file of texts.
    push_api_url: str = ""
    push_app_id: str = ""
    push_rest_api_key: str = ""
    push_ca: str = ""
    push_on: tuple[Literal["billing_issue", "trial_ending", "expired", "refunded", "granted"], ...] = ("billing_issue",)
    push_texts: str = ""
    push_trial_ending_hours: Annotated[int, Meta(ge=1, le=336)] = 24
    devices_per_user: Annotated[int, Meta(ge=1, le=1_000)] = 20
    # The token for metrics and for reprocessing events; without one these endpoints are closed.
    operator_token: str = ""
    verify_timeout_ms: Milliseconds = 2_000
    body_limit_bytes: Annotated[int, Meta(ge=1_024, le=64 * 1024 * 1024)] = 1024 * 1024
    # How often the background sweep looks for what was missed; 0 turns it off.
    sweep_seconds: Seconds = 300
    job_workers: Annotated[int, Meta(ge=1, le=64)] = 4
    # Closes the debug endpoint, and so do NODE_ENV=production and APP_ENV=production.
    production: bool = field(default_factory=lambda: _is_production(os.environ))
    # Only for the standalone server.
    host: str = "127.0.0.1"
    port: Port = 8444
    tls_cert: str = ""
    tls_key: str = ""
    behind_proxy: bool = False
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "pretty"] = "auto"

    def __repr__(self) -> str:
        # Most of it is secret.
        return f"Settings(service_url={self.service_url!r}, project_id={self.project_id!r})"

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **overrides: Any) -> Self:
        """Settings from the environment; refused with everything that is wrong, all at once."""
        environ = os.environ if environ is None else environ
        values, problems = _gather(cls, environ)
        settings = cls(**{**values, **overrides})
        if _is_production(environ):
            settings = structs.replace(settings, production=True)
        problems += [problem for problem in settings.problems() if problem[0] not in {name for name, _ in problems}]
        if problems:
            raise SettingsError(problems)
        return settings

    def problems(self) -> list[tuple[str, str]]:
        """What is wrong, by the name of the setting."""
        found = []
        for name, wanted in (
            ("service_url", "the service's address, such as https://billing.example.com"),
            ("project_id", "the project's id"),
            ("api_key", "a secret key of the project that may read"),
            ("webhook_secret", "what the service sends as `Authorization: Bearer …`"),
        ):
            if not getattr(self, name):
                found.append((name, f"is missing. Set it to {wanted}."))
        if self.service_url:
            found += _tried("service_url", lambda: checked(self.service_url))
        if self.service_ca:
            found += _tried("service_ca", lambda: _certificates(self.service_ca))
        found += _tried("database_url", lambda: checked_url(self.database_url))
        if self.jwt_secret and len(self.jwt_secret.encode()) < SHORTEST_SECRET:
            found.append(
                ("jwt_secret", f"is shorter than {SHORTEST_SECRET} bytes. Make one with `openssl rand -hex 32`.")
            )
        if self.jwt_public_key:
            found += _tried("jwt_public_key", lambda: load_pem_public_key(self.public_key_pem.encode()))
        given = {name: getattr(self, name) for name in ("push_api_url", "push_app_id", "push_rest_api_key")}
        if any(given.values()):
            found += [(name, "is missing while other push settings are there.") for name in given if not given[name]]
        if self.push_api_url and not self.push_api_url.startswith("https://"):
            found.append(("push_api_url", "must begin with https://: the REST API key travels in every call."))
        if self.push_texts:
            found += _tried("push_texts", lambda: read_texts(self.push_texts))
        if self.push_ca:
            found += _tried("push_ca", lambda: _certificates(self.push_ca))
        return found

    @property
    def public_key_pem(self) -> str:
        """The public key itself, where the setting names a file."""
        given = self.jwt_public_key
        return given if not given or given.lstrip().startswith("-----BEGIN ") else Path(given).read_text()

    @property
    def pushes(self) -> bool:
        return bool(self.push_api_url and self.push_app_id and self.push_rest_api_key)

    def transport_problems(self) -> list[tuple[str, str]]:
        """Problems with the network settings of the standalone server."""
        if bool(self.tls_cert) != bool(self.tls_key):
            return [("tls_cert", "and tls_key belong together. Set both.")]
        if self.tls_cert:
            return []
        try:
            address = ipaddress.ip_address("127.0.0.1" if self.host == "localhost" else self.host)
        except ValueError:
            return [("host", f"{self.host} is not an IP address.")]
        if not self.behind_proxy:
            return [
                ("tls_cert", "is missing. Set it with tls_key, or behind_proxy=true when a proxy in front ends TLS.")
            ]
        if address.is_unspecified or not (address.is_private or address.is_loopback):
            return [("host", f"{self.host} can be reached from outside, and there is no TLS.")]
        return []


def _is_production(environ: Mapping[str, str]) -> bool:
    return "production" in (environ.get("NODE_ENV"), environ.get("APP_ENV"))


def variable(name: str) -> str:
    return PREFIX + name.upper()


def _gather(kind: type[Settings], environ: Mapping[str, str]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    values: dict[str, Any] = {}
    problems: list[tuple[str, str]] = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if not (text := environ.get(variable(name))):
            continue
        given: Any = text
        if getattr(hint, "__origin__", None) is tuple:
            given = [word.strip() for word in text.split(",") if word.strip()]
        try:
            values[name] = msgspec.convert(given, hint, strict=False)
        except msgspec.ValidationError as error:
            problems.append((name, f"cannot be used: {error}."))
    return values, problems


def _certificates(file: str) -> None:
    load_pem_x509_certificates(Path(file).read_bytes())


def _tried(name: str, check: Any) -> list[tuple[str, str]]:
    try:
        check()
    except Exception as error:
        return [(name, f"cannot be used: {error}")]
    return []
