"""Writes files atomically, never readable by others."""

import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec


def write_private(path: Path, content: bytes, mode: int = 0o600) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(file, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    draft.rename(path)


def write_json(path: Path, value: Any) -> None:
    write_private(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def read_json(path: Path) -> dict[str, Any]:
    """The content; an empty dict if the file is missing or damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        return {}


class PushConnection(msgspec.Struct, frozen=True, kw_only=True):
    """How a server reaches the sandbox; `push` in connection.json."""

    base_url: str
    app_id: str
    rest_api_key: str


class DemoUser(msgspec.Struct, frozen=True):
    app_user_id: str
    token: str


class ConsumerConnection(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach the consumer; `consumer` in connection.json."""

    base_url: str
    webhook_url: str
    webhook_secret: str
    operator_token: str
    users: list[DemoUser]


class DashboardConnection(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    email: str
    # Null once it was changed.
    password: str | None


class EmulatorConnection(msgspec.Struct, frozen=True, kw_only=True):
    """A store emulator and the demo's app in it; one of `stores` in connection.json."""

    app_id: str
    public_api_key: str
    # The store's API, as the service asks it.
    api_url: str
    # Sells, acts and moves the clock; see docs/emulators.md.
    control_url: str


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    base_url: str
    ca_cert: str
    project_id: str
    api_key: str
    public_api_key: str
    database_url: str
    push: PushConnection
    consumer: ConsumerConnection
    dashboard: DashboardConnection
    # By "apple", "google" and "stripe"; empty with --no-stores.
    stores: dict[str, EmulatorConnection] = {}


class DataFolder:
    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.tls = self.path / "tls"
        # Our own authority and those of LATCHKEY_WEBHOOK_EXTRA_CA.
        self.authorities = self.tls / "webhook-authorities.pem"
        self.connection = self.path / "connection.json"
        self.demo = self.path / "demo.json"
        self.push = self.path / "push"
        self.consumer = self.path / "consumer"
        self.stores = self.path / "stores"
        self.charts = self.path / "charts"
        self.exports = self.path / "exports"
        self.mail = self.path / "mail"
        self.log = self.path / "latchkey.log"

    def prepare(self) -> None:
        # The content is only for this machine, and partly secret.
        (self.path / ".gitignore").write_text("*\n")
        # Scripts wait for this file; they must not read the one of the last run.
        self.connection.unlink(missing_ok=True)

    def secret_key(self) -> bytes:
        path = self.path / "secret.key"
        if not path.exists():
            write_private(path, os.urandom(32))
        return path.read_bytes()
