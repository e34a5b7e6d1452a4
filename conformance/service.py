"""The service under test: an address, a key, and what else the tests may use.

| variable | |
|---|---|
| `CONFORMANCE_BASE` | its address, `https://…`; without it a `latchkey up` is started |
| `CONFORMANCE_KEY` | a secret API key that may read and write |
| `CONFORMANCE_PROJECT` | the project's id; the project has the products of `conformance/catalog.yaml` |
| `CONFORMANCE_CA` | a file with the certificate authority, if it is not a public one |
| `CONFORMANCE_RECEIVER_CERT`, `CONFORMANCE_RECEIVER_KEY` | PEM files for the suite's servers; the service trusts them |
| `CONFORMANCE_RECEIVER_HOST` | the address at which the service reaches this machine; 127.0.0.1 by default |
| `CONFORMANCE_PUBLIC_KEY` | the public key of an app of the project |
| `CONFORMANCE_EMAIL`, `CONFORMANCE_PASSWORD` | an account of the dashboard that may change webhooks |
| `CONFORMANCE_CONNECTION` | instead of all these: the `connection.json` of a running `latchkey up` |

Tests that need what is not given (store emulators, the dashboard) are not run, and the report says so.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from conformance.https import Reply, ask

ROOT = Path(__file__).parents[1]
LATCHKEY = Path(sys.executable).with_name("latchkey")


def environment(**more: str) -> dict[str, str]:
    left = {name: value for name, value in os.environ.items() if not name.startswith(("LATCHKEY_", "CONFORMANCE_"))}
    return {**left, **more}


@dataclass(frozen=True)
class Service:
    base: str
    project: str
    key: str
    ca: str | None
    certificate: Path | None
    certificate_key: Path | None
    host: str = "127.0.0.1"
    stores: Mapping[str, Any] = field(default_factory=dict)
    dashboard: Mapping[str, Any] = field(default_factory=dict)
    push: Mapping[str, Any] = field(default_factory=dict)
    public_key: str | None = None
    data: Path | None = None

    def ask(self, method: str, path: str, value: Any = None, *, key: str | None = None, **headers: str) -> Reply:
        """A V2 path begins below the project; others begin with a slash."""
        whole = path if path.startswith("/") else f"/v2/projects/{self.project}/{path}"
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        authorization = f"Bearer {self.key if key is None else key}"
        return ask(self.base, method, whole, value, ca=self.ca, authorization=authorization, headers=named)

    def call(self, method: str, path: str, value: Any = None, *, key: str | None = None, **headers: str) -> Any:
        reply = self.ask(method, path, value, key=key, **headers)
        while reply.status == 429:  # the suite may ask no more often than any other client
            time.sleep(int(reply.headers.get("retry-after", 60)))
            reply = self.ask(method, path, value, key=key, **headers)
        assert reply.status < 300, f"{method} {path} {value}: {reply.status} {reply.body.decode()[:500]}"
        return reply.json

    def new_key(self, name: str) -> str:
        wanted = {"name": f"conformance: {name}", "scopes": ["read", "write"]}
        key: str = self.call("POST", "api_keys", wanted)["key"]
        return key

    @property
    def certificates(self) -> tuple[Path, Path]:
        if self.certificate is None or self.certificate_key is None:
            pytest.skip("needs CONFORMANCE_RECEIVER_CERT and CONFORMANCE_RECEIVER_KEY")
        return self.certificate, self.certificate_key

    def store(self, name: str) -> str:
        """The control address of a store emulator."""
        if name not in self.stores:
            pytest.skip("needs the store emulators of a `latchkey up`")
        control: str = self.stores[name]["control_url"]
        return control


@contextmanager
def reached() -> Iterator[Service]:
    given = {name.removeprefix("CONFORMANCE_"): value for name, value in os.environ.items() if value}
    if "CONNECTION" in given:
        yield _connected(Path(given["CONNECTION"]))
    elif "BASE" in given:
        for name in ("KEY", "PROJECT"):
            assert name in given, f"CONFORMANCE_{name} is missing, see conformance/service.py"
        base = given["BASE"].rstrip("/")
        certificate, key = (given.get(f"RECEIVER_{name}") for name in ("CERT", "KEY"))
        account = {"email": given.get("EMAIL"), "password": given.get("PASSWORD"), "url": f"{base}/dashboard"}
        yield Service(
            base,
            given["PROJECT"],
            given["KEY"],
            given.get("CA"),
            Path(certificate) if certificate else None,
            Path(key) if key else None,
            given.get("RECEIVER_HOST", "127.0.0.1"),
            dashboard=account if account["email"] else {},
            public_key=given.get("PUBLIC_KEY"),
        )
    else:
        with tempfile.TemporaryDirectory(prefix="lk") as folder, _up(Path(folder)) as service:
            yield service


def _connected(file: Path) -> Service:
    told = json.loads(file.read_text())
    tls = file.parent / "tls"
    return Service(
        told["base_url"],
        told["project_id"],
        told["api_key"],
        told["ca_cert"],
        tls / "server.pem",
        tls / "server.key",
        stores=told.get("stores", {}),
        dashboard=told.get("dashboard", {}),
        push=told.get("push", {}),
        public_key=told.get("public_api_key"),
        data=file.parent,
    )


@contextmanager
def _up(folder: Path) -> Iterator[Service]:
    words = ("up", "--data", folder / "data", "--port", "0", "--workers", "1", "--no-history")
    with (folder / "up.log").open("wb") as log:
        process = subprocess.Popen(
            [LATCHKEY, *words], stdout=log, stderr=subprocess.STDOUT, env=environment(), start_new_session=True
        )
    try:
        deadline = time.monotonic() + 180
        while "Press Ctrl-C to stop everything" not in (folder / "up.log").read_text():
            assert process.poll() is None, (folder / "up.log").read_text()
            assert time.monotonic() < deadline, (folder / "up.log").read_text()
            time.sleep(0.1)
        yield _connected(folder / "data" / "connection.json")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
