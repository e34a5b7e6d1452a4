"""The settings of the service: from the environment (`LATCHKEY_DATABASE_URL`) and from one file (`database_url`); the
environment wins. A secret can also be in a file of its own, which the environment names (`LATCHKEY_DATABASE_URL_FILE`).

And how many processors this process may use. A container often may use fewer than the machine has.

Two things limit it: the set of processors that it may run on (`taskset`, `docker run --cpuset-cpus`), and a quota of
time (`docker run --cpus`, a CPU limit of Kubernetes, `CPUQuota=` of systemd), which the kernel keeps in control groups.
"""

import base64
import contextlib
import difflib
import math
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_network
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, get_args, get_type_hints
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, inspect

from latchkey.domain.outgoing_address import Network

_GROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def available_cpus(groups: Path = _GROUPS, own: Path = _OWN) -> int:
    """At least 1. A part of a processor counts as one: a quota of 1.5 keeps two processes busy."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [math.ceil(quota) for quota in _quotas(groups, own)]
    return max(1, min([allowed, *quotas]))


def _quotas(groups: Path, own: Path) -> Iterator[float]:
    """Of our control group and those above it: each of them limits everything in it."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        # Version 2 names no controllers, and has both numbers in one file.
        root, files = groups, ["cpu.max"]
        if controllers:
            root, files = groups / "cpu", ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        if controllers and "cpu" not in controllers.split(","):
            continue
        inside = PurePosixPath(path.lstrip("/"))
        # In a container the path may be that of the host, and only the last of these folders exists.
        for group in (inside, *inside.parents):
            # Not a number: there is no limit.
            with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
                quota, period = " ".join((root / group / name).read_text() for name in files).split()
                if int(quota) > 0:
                    yield int(quota) / int(period)


PREFIX = "LATCHKEY_"
Role = Literal["api", "clock", "delivery"]
ROLES: tuple[Role, ...] = get_args(Role)
# Connections that may wait to be accepted by one process.
BACKLOG = 1024
# In the scope of a request: this process will end soon.
STOPPING = "latchkey.stopping"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
# Never printed, and only in a file that its owner alone can read.
SECRETS = frozenset({"database_url", "secret_key", "openid_client_secret", "metrics_key", "smtp_password"})


class Problem(Struct, frozen=True):
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


Timeout = Annotated[int, Meta(ge=0, le=3_600_000)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
# Read as text first; `_MADE` says what becomes of it.
File = Annotated[Path | None, Meta(description="the path of a file")]
Networks = Annotated[tuple[Network, ...], Meta(description="networks such as 10.0.0.0/8, separated by commas")]
Key = Annotated[bytes, Meta(description="32 random bytes in base64; make one with `openssl rand -base64 32`")]


class Settings(Struct, frozen=True, kw_only=True):
    database_url: str = ""
    database_connections: Annotated[int, Meta(ge=2, le=1_000)] = 10
    statement_timeout_ms: Timeout = 30_000
    lock_timeout_ms: Timeout = 10_000
    host: str = "127.0.0.1"
    port: Port = 8443
    tls_cert: File = None
    tls_key: File = None
    behind_proxy: bool = False
    roles: Annotated[tuple[Role, ...], Meta(min_length=1)] = ROLES
    workers: Annotated[int, Meta(ge=0, le=256)] = 0
    shutdown_delay_seconds: Annotated[int, Meta(ge=0, le=3_600)] = 5
    drain_seconds: Annotated[int, Meta(ge=0, le=3_600)] = 30
    address_requests_per_minute: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 12_000
    keys_create_projects: bool = False
    secret_key: Key = b""
    webhook_timeout_ms: Annotated[int, Meta(ge=100, le=60_000)] = 60_000
    webhook_in_flight: Annotated[int, Meta(ge=1, le=100_000)] = 2_000
    webhook_allow_networks: Networks = ()
    webhook_extra_ca: File = None
    operations_url: str = ""
    attempts_kept_days: Annotated[int, Meta(ge=1, le=36_500)] = 30
    store_allow_hosts: tuple[str, ...] = ()
    store_extra_ca: File = None
    store_emulators: tuple[str, ...] = ()
    store_journal_kept_days: Annotated[int, Meta(ge=1, le=36_500)] = 90
    unverified_receipt_bytes_per_day: Annotated[int, Meta(ge=0, le=1_000_000_000_000)] = 5_000_000
    temporary_grants: bool = True
    temporary_grants_per_hour: Annotated[int, Meta(ge=0, le=1_000_000)] = 100
    exchange_rates: str = ""
    charts_folder: File = None
    export_folder: File = None
    export_allow_hosts: tuple[str, ...] = ()
    public_url: str = ""
    require_second_factor: bool = False
    smtp_host: str = ""
    smtp_port: Port = 587
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    smtp_user: str = ""
    smtp_password: str = ""
    smtp_extra_ca: File = None
    mail_from: str = ""
    mail_domains: tuple[str, ...] = ()
    mail_folder: File = None
    openid_issuer: str = ""
    openid_client_id: str = ""
    openid_client_secret: str = ""
    openid_name: str = "single sign-on"
    openid_extra_ca: File = None
    metrics_port: Port = 0
    metrics_host: str = "127.0.0.1"
    metrics_key: str = ""
    otel: bool = False
    request_log_kept_days: Annotated[int, Meta(ge=0, le=365)] = 7
    request_log_kept_rows: Annotated[int, Meta(ge=100, le=10_000_000)] = 10_000
    demo_history: bool = True
    access_log: bool = True
    access_log_one_in: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "pretty"] = "auto"

    def __repr__(self) -> str:
        shown = [f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in SECRETS]
        return f"Settings({', '.join(shown)})"

    @property
    def api_processes(self) -> int:
        return self.workers or available_cpus()

    @property
    def processes(self) -> int:
        """All processes of `latchkey serve` that use the database: those that answer requests and deliver, and one for
        what is left."""
        if "api" not in self.roles:
            return 1
        return self.api_processes + ("clock" in self.roles)

    @property
    def stop_seconds(self) -> int:
        """How long a process may take to stop by itself."""
        return self.shutdown_delay_seconds + self.drain_seconds

    @property
    def tls(self) -> bool:
        return self.tls_cert is not None and self.tls_key is not None


def control_urls(setting: tuple[str, ...]) -> dict[tuple[str, str], str]:
    """The setting `store_emulators`: control addresses by project and app. ValueError says what is wrong."""
    found: dict[tuple[str, str], str] = {}
    for one in setting:
        place, _, url = one.partition("=")
        project_id, _, app_id = place.strip().partition("/")
        try:
            parts = urlsplit(url.strip())
            host, _ = parts.hostname, parts.port
        except ValueError:
            host, parts = None, urlsplit("")
        if not project_id or not app_id or not host or parts.scheme != "http":
            raise ValueError(f"{one!r} is not PROJECT/APP=http://127.0.0.1:PORT/control")
        if host not in _LOOPBACK:
            raise ValueError(f"{host} is not this machine; a control API has no password and is on loopback only")
        found[project_id, app_id] = url.strip().rstrip("/")
    return found


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
    for name, variable in _FILES.items():
        if path := environ.get(variable):
            if environ.get(PREFIX + name.upper()):
                problems.append(Problem(variable, f"is set, and {PREFIX}{name.upper()} too.", "Set one of them."))
            elif (text := _only_line(variable, Path(path), problems)) is not None:
                _take(values, name, text, variable, problems)
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
        if name.startswith(PREFIX) and plain not in _NAMES and name not in _FILES.values():
            for close in difflib.get_close_matches(plain, _NAMES, 1, 0.85):
                yield Problem(name, "is not a setting.", f"Did you mean {PREFIX}{close.upper()}?")


def _only_line(variable: str, path: Path, problems: list[Problem]) -> str | None:
    """The content of a file with one secret. Who mounts it decides who else can read it."""
    try:
        lines = path.read_text(encoding="utf-8").strip().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        problems.append(Problem(variable, f"{path} cannot be read ({reason}).", "Give a file with the value in it."))
        return None
    if len(lines) != 1:
        problems.append(Problem(variable, f"{path} must have one line.", "Write only the value into it."))
        return None
    return lines[0].strip()


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
    if SECRETS & found.keys() and config.stat().st_mode & 0o077:
        problems.append(
            Problem("config", f"{config} holds secrets and others can read it.", f"Run `chmod 600 {config}`.")
        )
    return found


def _take(values: dict[str, Any], name: str, value: Any, shown: str, problems: list[Problem]) -> None:
    kind = KINDS[name]
    try:
        plain = msgspec.convert(_prepared(kind, value), kind.written)
        if isinstance(plain, tuple):
            plain = tuple(dict.fromkeys(plain))
        values[name] = kind.make(plain) if kind.make is not None else plain
    except (msgspec.ValidationError, ValueError, RuntimeError):
        # These errors may quote the value, which may be secret; our message does not. RuntimeError: `~name` where there
        # is no such user.
        remedy = "docs/latchkey.toml says more."
        if isinstance(value, str) and value.startswith("tcp://"):
            remedy = "Kubernetes sets it for a service named latchkey; give the pod `enableServiceLinks: false`."
        problems.append(Problem(shown, f"must {kind.wanted}.", remedy))


class _Kind(Struct, frozen=True):
    """How a setting is read."""

    # The type that msgspec checks, and msgspec's description of it.
    written: Any
    info: inspect.Type
    # What the value must do or be, for the message about a wrong one.
    wanted: str
    # What is made of the checked value, where the setting is not kept as it is written.
    make: Callable[[Any], Any] | None = None


_BOOLEANS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def _prepared(kind: _Kind, value: Any) -> Any:
    """A text as its type wants it; variables are always texts, and files may have them too."""
    match kind.info, value:
        case inspect.VarTupleType(), str() | list():
            words = value.split(",") if isinstance(value, str) else value
            words = [word.strip() if isinstance(word, str) else word for word in words]
            return [word for word in words if word != ""]
        case inspect.IntType(), str():
            return int(value)
        case inspect.BoolType(), str():
            return _BOOLEANS.get(value.strip().lower(), value)
        case inspect.LiteralType(), str():
            return value.strip().lower()
    return value


def _key(text: str) -> bytes:
    key = base64.b64decode(text.strip(), validate=True)
    if len(key) != 32:
        raise ValueError("32 bytes are needed")
    return key


# The type as it is written, and what is made of it.
_MADE: Mapping[Any, tuple[Any, Callable[[Any], Any]]] = {
    File: (str, lambda text: Path(text).expanduser() if text else None),
    Networks: (tuple[str, ...], lambda words: tuple(map(ip_network, words))),
    Key: (str, _key),
}


def _kind(hint: Any) -> _Kind:
    if hint in _MADE:
        written, make = _MADE[hint]
        (meta,) = hint.__metadata__
        return _Kind(written, inspect.type_info(written), f"be {meta.description}", make)
    info = inspect.type_info(hint)
    match info:
        case inspect.IntType():
            wanted = f"be a whole number from {info.ge} to {info.le}"
        case inspect.BoolType():
            wanted = "be true or false"
        case inspect.LiteralType():
            wanted = f"be one of {', '.join(get_args(hint))}"
        case inspect.VarTupleType(item_type=inspect.LiteralType(values=choices)):
            wanted = f"name some of {', '.join(map(str, choices))}"
        case _:
            wanted = "be text"
    return _Kind(hint, info, wanted)


KINDS = {name: _kind(hint) for name, hint in get_type_hints(Settings, include_extras=True).items()}
_NAMES = Settings.__struct_fields__
# Variables that name a file with a secret in it, as container platforms mount them.
_FILES = {name: f"{PREFIX}{name.upper()}_FILE" for name in _NAMES if name in SECRETS}

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
