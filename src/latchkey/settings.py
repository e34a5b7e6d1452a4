"""Settings: from the environment (`LATCHKEY_DATABASE_URL`) and from one file (`database_url`); the environment wins.

`docs/latchkey.toml` is the list of all of them with their defaults and reasons; a test keeps it equal to this module.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import ipaddress
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from latchkey.domain.webhooks.address import Network

PREFIX = "LATCHKEY_"
ROLES = ("api", "clock", "delivery")
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("auto", "json", "pretty")
# Connections that may wait to be accepted by one process.
BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with the settings, and what to do about it."""

    setting: str
    wrong: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.setting}: {self.wrong} {self.remedy}".strip()

    @property
    def about(self) -> str:
        """The setting's name however it was spelt, to tell a problem that was already reported."""
        return self.setting.removeprefix(PREFIX).lower()


class SettingsRefusedError(Exception):
    """Some settings are missing, malformed or unsafe; every one of them is listed."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


def default_workers() -> int:
    # PostgreSQL and the background roles want the other half of a small machine.
    return max(1, (os.cpu_count() or 1) // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    # Values that must never be printed are left out of the representation.
    database_url: str = field(default="", repr=False)
    database_connections: int = 10
    statement_timeout_ms: int = 30_000
    lock_timeout_ms: int = 10_000
    host: str = "127.0.0.1"
    port: int = 8443
    tls_cert: Path | None = None
    tls_key: Path | None = None
    behind_proxy: bool = False
    roles: tuple[str, ...] = ROLES
    workers: int = 0
    drain_seconds: int = 30
    secret_key: bytes = field(default=b"", repr=False)
    webhook_timeout_ms: int = 60_000
    webhook_in_flight: int = 2_000
    webhook_allow_networks: tuple[Network, ...] = ()
    webhook_extra_ca: Path | None = None
    operations_url: str = ""
    attempts_kept_days: int = 30
    openid_issuer: str = ""
    openid_client_id: str = ""
    openid_client_secret: str = field(default="", repr=False)
    openid_name: str = "single sign-on"
    openid_extra_ca: Path | None = None
    metrics_port: int = 0
    log_level: str = "info"
    log_format: str = "auto"

    @property
    def api_processes(self) -> int:
        return self.workers or default_workers()

    @property
    def tls(self) -> bool:
        return self.tls_cert is not None and self.tls_key is not None


def load(
    environ: Mapping[str, str], config: Path | None = None, overrides: Mapping[str, Any] | None = None
) -> Settings:
    """Settings from the file, then the environment, then the command line; refused with all that is malformed."""
    settings, problems = gather(environ, config, overrides)
    if problems:
        raise SettingsRefusedError(problems)
    return settings


def gather(
    environ: Mapping[str, str],
    config: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> tuple[Settings, list[Problem]]:
    """As `load`, but what is malformed is left at its default and reported, so that other checks can go on."""
    problems: list[Problem] = []
    values: dict[str, Any] = dict(defaults or {})
    if config is None and environ.get(f"{PREFIX}CONFIG"):
        config = Path(environ[f"{PREFIX}CONFIG"])
    if config is not None:
        for name, value in _read(config, problems).items():
            _take(values, name, value, name, problems)
    for name in _NAMES:
        if text := environ.get(PREFIX + name.upper()):
            _take(values, name, text, PREFIX + name.upper(), problems)
    problems += _misspelt(environ)
    problems += _empty_database(environ, values)
    values.update({name: value for name, value in (overrides or {}).items() if value is not None})
    return Settings(**values), problems


def _empty_database(environ: Mapping[str, str], values: Mapping[str, Any]) -> Iterator[Problem]:
    """An address that is set but empty, most often by a script whose own variable is missing. It must not count as not
    set: commands would then work on the database of a `latchkey up`."""
    variable = f"{PREFIX}DATABASE_URL"
    in_environment = environ.get(variable) == ""
    if not values.get("database_url") and (in_environment or "database_url" in values):
        yield Problem(
            variable if in_environment else "database_url",
            "is set but empty.",
            "Set it to a PostgreSQL address such as postgresql://user@host/latchkey, or unset it.",
        )


def _misspelt(environ: Mapping[str, str]) -> Iterator[Problem]:
    """Names in the environment that are almost a setting's. Others with our prefix are somebody else's business."""
    for name in sorted(environ):
        plain = name.removeprefix(PREFIX).lower()
        if name.startswith(PREFIX) and plain not in _NAMES:
            for close in difflib.get_close_matches(plain, _NAMES, 1, 0.85):
                yield Problem(name, "is not a setting.", f"Did you mean {PREFIX}{close.upper()}?")


def _read(config: Path, problems: list[Problem]) -> dict[str, Any]:
    try:
        found = tomllib.loads(config.read_text(encoding="utf-8"))
    except OSError as error:
        problems.append(
            Problem("config", f"{config} cannot be read ({error.strerror}).", "Check --config or LATCHKEY_CONFIG.")
        )
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(Problem("config", f"{config} is not TOML: {error}.", "docs/latchkey.toml shows the form."))
        return {}
    for name in [name for name in found if name not in _NAMES]:
        close = difflib.get_close_matches(name, _NAMES, 1)
        remedy = f"Did you mean {close[0]}?" if close else "docs/latchkey.toml lists all settings."
        problems.append(Problem(name, f"is not a setting (in {config}).", remedy))
        del found[name]
    if {"secret_key", "database_url", "openid_client_secret"} & found.keys() and config.stat().st_mode & 0o077:
        problems.append(
            Problem("config", f"{config} holds secrets and others can read it.", f"Run `chmod 600 {config}`.")
        )
    return found


def _take(values: dict[str, Any], name: str, value: Any, shown: str, problems: list[Problem]) -> None:
    try:
        parse: Callable[[Any], Any] = _PARSERS.get(name, _text)
        values[name] = parse(value)
    except ValueError as error:
        remedy = "docs/latchkey.toml says more."
        if isinstance(value, str) and value.startswith("tcp://"):
            remedy = "Kubernetes sets it for a service named latchkey; give the pod `enableServiceLinks: false`."
        problems.append(Problem(shown, f"{error}.", remedy))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")  # noqa: TRY004 - a malformed setting, not a mistake in the program
    return value


def _path(value: Any) -> Path | None:
    return Path(value).expanduser() if _text(value) else None


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = _text(value).strip().lower()
    if word in {"true", "1", "yes", "on"}:
        return True
    if word in {"false", "0", "no", "off"}:
        return False
    raise ValueError("must be true or false")


def _number(low: int, high: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        try:
            number = int(value)
        except (TypeError, ValueError):
            number = low - 1
        if isinstance(value, bool | float) or not low <= number <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return number

    return parse


def _one_of(choices: tuple[str, ...]) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        word = _text(value).strip().lower()
        if word not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return word

    return parse


def parse_roles(value: Any) -> tuple[str, ...]:
    words = value if isinstance(value, list) else _text(value).split(",")
    chosen = tuple(dict.fromkeys(_text(word).strip() for word in words))
    if not chosen or set(chosen) - set(ROLES):
        raise ValueError(f"must name some of {', '.join(ROLES)}")
    return chosen


def _networks(value: Any) -> tuple[Network, ...]:
    words = value if isinstance(value, list) else _text(value).split(",")
    try:
        return tuple(ipaddress.ip_network(_text(word).strip()) for word in words if _text(word).strip())
    except ValueError:
        raise ValueError("must be networks such as 10.0.0.0/8, separated by commas") from None


def _key(value: Any) -> bytes:
    try:
        key = base64.b64decode(_text(value).strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != 32:
        raise ValueError("must be 32 random bytes in base64; make one with `openssl rand -base64 32`")
    return key


_PARSERS: Mapping[str, Callable[[Any], Any]] = {
    "database_connections": _number(1, 1_000),
    "statement_timeout_ms": _number(0, 3_600_000),
    "lock_timeout_ms": _number(0, 3_600_000),
    "port": _number(0, 65_535),
    "tls_cert": _path,
    "tls_key": _path,
    "behind_proxy": _boolean,
    "roles": parse_roles,
    "workers": _number(0, 256),
    "drain_seconds": _number(0, 3_600),
    "secret_key": _key,
    "webhook_timeout_ms": _number(100, 60_000),
    "webhook_in_flight": _number(1, 100_000),
    "webhook_allow_networks": _networks,
    "webhook_extra_ca": _path,
    "openid_extra_ca": _path,
    "attempts_kept_days": _number(1, 36_500),
    "metrics_port": _number(0, 65_535),
    "log_level": _one_of(LOG_LEVELS),
    "log_format": _one_of(LOG_FORMATS),
}
_NAMES = tuple(entry.name for entry in fields(Settings))
