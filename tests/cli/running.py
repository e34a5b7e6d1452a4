"""A real `latchkey` process, and requests to it as a client would send them."""

import base64
import contextlib
import http.client
import io
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Self
from unittest import mock
from urllib.parse import urlsplit

from latchkey.cli.main import main
from tests.http.client import Reply
from tests.patience import PATIENCE

LATCHKEY = Path(sys.executable).with_name("latchkey")


def clean_environment(**more: str) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if not name.startswith("LATCHKEY_")}, **more}


def latchkey(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LATCHKEY, *words], capture_output=True, text=True, env=clean_environment(**environment), timeout=PATIENCE
    )


def typed(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """As `latchkey`, but in this process, which saves a second for each command that ends by itself."""
    output, errors = io.StringIO(), io.StringIO()
    code = 0
    with (
        mock.patch.dict(os.environ, clean_environment(**environment), clear=True),
        mock.patch.object(sys, "argv", ["latchkey", *map(str, words)]),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else 0
    return subprocess.CompletedProcess(words, code, output.getvalue(), errors.getvalue())


class Running:
    """A command that keeps running. Its output is collected line by line."""

    program: str | Path = LATCHKEY

    def __init__(self, *words: str | Path, **environment: str) -> None:
        self.process = subprocess.Popen(
            [self.program, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=clean_environment(**environment),
            # A group of its own, so that Ctrl-C can be sent as a terminal sends it.
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(self.process.stdout)

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def wait_for(self, words: str, patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while words not in self.output:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self._reader.join(1)
                assert words in self.output, self.output
            time.sleep(0.01)

    def wait_for_event(self, event: str) -> dict[str, Any]:
        """The first line of the log with this event."""
        deadline = time.monotonic() + PATIENCE
        while True:
            for line in list(self.lines):
                with contextlib.suppress(ValueError):
                    said = json.loads(line)
                    if isinstance(said, dict) and said.get("event") == event:
                        return said
            assert time.monotonic() < deadline, self.output
            assert self.process.poll() is None, self.output
            time.sleep(0.01)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the process if the test has left it running."""
        if self.process.poll() is None:
            self.kill()

    def ctrl_c(self) -> int:
        os.killpg(self.process.pid, signal.SIGINT)
        return self.ended()

    def terminate(self) -> int:
        self.process.terminate()
        return self.ended()

    def kill(self) -> None:
        self.process.kill()
        self.ended()

    def ended(self) -> int:
        code = self.process.wait(PATIENCE)
        self._reader.join(60)
        if self.process.stdout is not None and not self._reader.is_alive():
            self.process.stdout.close()
        return code


class Shell(Running):
    """A script that ends in a command that keeps running."""

    program = "bash"

    def __init__(self, script: str, **environment: str) -> None:
        super().__init__("-euo", "pipefail", "-c", script, **environment)


class Up(Running):
    def __init__(self, folder: Path, *words: str | Path, history: bool = False, **environment: str) -> None:
        # One process that answers is enough for most tests, and each takes a second of CPU to start. The demo's history
        # takes some seconds too.
        bare = () if history else ("--no-history",)
        super().__init__("up", "--data", folder, "--workers", "1", *bare, *words, **environment)
        self.folder = folder

    def wait_until_ready(self) -> dict[str, Any]:
        self.wait_for("Press Ctrl-C to stop everything")
        return self.connection

    @property
    def connection(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "connection.json").read_text())
        return found

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        return get(self.connection["base_url"], self.connection["ca_cert"], path, **headers)

    def call(self, method: str, path: str, value: Any = None) -> Any:
        return call(self.connection, method, path, value)


def ask(
    base_url: str,
    method: str,
    path: str,
    value: Any = None,
    *,
    authority: str | Path | None = None,
    key: str | None = None,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """The reply to a request on a connection of its own. The body is a value, which is sent as JSON, or bytes. The
    certificate must be of this authority."""
    host = urlsplit(base_url).netloc
    if authority is None:
        connection = http.client.HTTPConnection(host, timeout=PATIENCE)
    else:
        trusted = ssl.create_default_context(cafile=authority)
        connection = http.client.HTTPSConnection(host, timeout=PATIENCE, context=trusted)
    sent = dict(headers or {})
    if value is not None or body is not None:
        sent = {"Content-Type": "application/json", **sent}
    if key is not None:
        sent["Authorization"] = f"Bearer {key}"
    with closing(connection):
        connection.request(method, path, json.dumps(value) if value is not None else body, sent)
        reply = connection.getresponse()
        # Of several cookies the first.
        received = {name.lower(): text for name, text in reversed(reply.getheaders())}
        return Reply(reply.status, received, reply.read())


def get(base_url: str, authority: str | None, path: str, **headers: str) -> tuple[int, bytes]:
    reply = ask(base_url, "GET", path, authority=authority, headers=headers)
    return reply.status, reply.body


def call(connection: Mapping[str, Any], method: str, path: str, value: Any = None) -> Any:
    """The reply to a request with the secret key of a `connection.json`, which must succeed. V2 paths begin below the
    project."""
    whole = path if path.startswith("/v1/") else f"/v2/projects/{connection['project_id']}/{path}"
    reply = ask(
        connection["base_url"], method, whole, value, authority=connection["ca_cert"], key=connection["api_key"]
    )
    assert reply.status < 300, reply
    return reply.json()


def serve(database_url: str, *words: str, **environment: str) -> Running:
    """`latchkey serve` behind a proxy, on any port."""
    settings = {
        "LATCHKEY_DATABASE_URL": database_url,
        "LATCHKEY_SECRET_KEY": base64.b64encode(b"k" * 32).decode(),
        "LATCHKEY_BEHIND_PROXY": "true",
        "LATCHKEY_PORT": "0",
        "LATCHKEY_LOG_FORMAT": "json",
        "LATCHKEY_SHUTDOWN_DELAY_SECONDS": "0",
    }
    return Running("serve", *words, **settings | environment)


@contextlib.contextmanager
def serving(database_url: str, *words: str, **environment: str) -> Iterator[tuple[Running, str]]:
    """`serve` until the end of the block, with its address."""
    with serve(database_url, *words, **environment) as running:
        yield running, f"http://127.0.0.1:{running.wait_for_event('ready')['port']}"
        running.terminate()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
