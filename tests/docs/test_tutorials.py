"""The tutorials: every marked block is run as it stands, against a real service."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from uuid import uuid4

import pytest

from latchkey.delivery.sending.signing import signature
from tests import machine
from tests.api.client import Client, running
from tests.cli.running import Running, Up, free_port, get, typed
from tests.docs.tutorials import FOLDER, marked, only
from tests.patience import PATIENCE
from tests.web_sdk.shopping import act

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RUN = {
    "first-webhook.md": {"file: receiver.py", "file: signature.py", "run in the background: receiver", "run"},
    "fastapi.md": {"file: app.py"},
    "flask.md": {"file: app.py"},
    "django.md": {"file: app.py"},
    "express.md": {"file: app.mjs"},
    "go-live.md": {"run"},
}


def test_every_marked_block_is_run_by_a_test() -> None:
    assert {path.name: set(marked(path.name)) for path in FOLDER.glob("*.md")} == RUN


@pytest.fixture
def reached(up: Up, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    there = up.connection
    found = {
        "BASE": there["base_url"],
        "KEY": there["api_key"],
        "PROJECT": there["project_id"],
        "CA": there["ca_cert"],
    }
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture
def users(up: Up) -> tuple[str, str]:
    """Who has bought something, and whom nobody knows."""
    buyer = f"tutorial {uuid4()}"
    act(up, "purchase", buyer, "pro_monthly")
    return buyer, f"nobody_{uuid4()}"


def loaded(page: str, folder: Path, mark: str = "file: app.py") -> ModuleType:
    name = mark.removeprefix("file: ")
    (folder / name).write_text(only(page, mark))
    spec = importlib.util.spec_from_file_location(f"tutorial_{uuid4().hex}", folder / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Django looks its URLs up in the module by its name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def test_fastapi(reached: dict[str, str], users: tuple[str, str], tmp_path: Path) -> None:
    app = loaded("fastapi.md", tmp_path).app
    client = Client(app)
    async with running(app):
        assert (await client.get("/notes")).status == 200
        assert [(await client.get("/export", headers={"x-user": one})).status for one in users] == [200, 403]


def test_flask(reached: dict[str, str], users: tuple[str, str], tmp_path: Path) -> None:
    module = loaded("flask.md", tmp_path)
    client = module.app.test_client()
    assert (client.get("/notes").status_code, client.get("/export").status_code) == (200, 401)
    assert [client.get("/export", headers={"X-User": one}).status_code for one in users] == [200, 403]
    os.environ["BASE"] = "https://127.0.0.1:1"
    assert client.get("/export", headers={"X-User": users[0]}).status_code == 503
    module.latchkey.close()


def test_django(reached: dict[str, str], users: tuple[str, str], tmp_path: Path) -> None:
    module = loaded("django.md", tmp_path)
    from django.test import Client as DjangoClient

    client = DjangoClient()
    assert (client.get("/notes").status_code, client.get("/export").status_code) == (200, 401)
    assert [client.get("/export", headers={"x-user": one}).status_code for one in users] == [200, 403]
    os.environ["BASE"] = "https://127.0.0.1:1"
    assert client.get("/export", headers={"x-user": users[0]}).status_code == 503
    module.latchkey.close()


class Server(Running):
    def __init__(self, program: str | Path, *words: str | Path, **environment: str) -> None:
        self.program = program
        super().__init__(*words, **environment)


def test_express(reached: dict[str, str], users: tuple[str, str], tmp_path: Path) -> None:
    packages = machine.downloaded(HERE / "express")
    node = machine.optional("node")
    folder = tmp_path / "node_modules"
    folder.mkdir()
    for one in packages.iterdir():
        (folder / one.name).symlink_to(one)
    (folder / "latchkey-client").symlink_to(ROOT / "clients" / "javascript")
    (tmp_path / "app.mjs").write_text(only("express.md", "file: app.mjs"))
    given = {**reached, "NODE_EXTRA_CA_CERTS": reached["CA"], "PORT": "0", "NODE_PRESERVE_SYMLINKS": "1"}
    with Server(node, tmp_path / "app.mjs", **given) as server:
        server.wait_for("Listening on port")
        found = re.search(r"port (\d+)", server.output)
        assert found is not None
        base = f"http://127.0.0.1:{found[1]}"
        assert get(base, None, "/notes")[0] == 200
        said = [get(base, None, "/export", **{"X-User": one})[0] for one in users]
        assert (said, get(base, None, "/export")[0]) == ([200, 403], 401)


def test_first_webhook(up: Up, tmp_path: Path) -> None:
    (tmp_path / "receiver.py").write_text(only("first-webhook.md", "file: receiver.py"))
    (tmp_path / ".latchkey").symlink_to(up.folder)
    port = free_port()
    command = shlex.split(only("first-webhook.md", "run in the background: receiver"))
    assert command[0] == "latchkey"
    words = [word.replace(":3000", f":{port}") for word in command[1:]]
    user = f"ada_{uuid4().hex[:8]}"
    with (
        Server(sys.executable, tmp_path / "receiver.py", PORT=str(port)) as receiver,
        Running(*words, "--data", up.folder) as forwarding,
    ):
        forwarding.wait_for("Press Ctrl-C")
        script = only("first-webhook.md", "run").replace('"ada"', f'"{user}"')
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        receiver.wait_for(f"INITIAL_PURCHASE {user} ['pro']")
        forwarding.wait_for("your app answered 200")
        assert forwarding.ctrl_c() == 0


def test_the_signature_is_checked(tmp_path: Path) -> None:
    is_signed = loaded("first-webhook.md", tmp_path, "file: signature.py").is_signed
    secret, body, now = "whsec_" + base64.b64encode(b"s" * 24).decode(), b'{"event": {}}', int(time.time())
    headers = {"webhook-id": "e1", "webhook-timestamp": str(now)}
    headers["webhook-signature"] = f"v1,b2xk {signature([secret], 'e1', now, body)}"
    assert is_signed(body, headers, secret)
    assert not is_signed(body + b" ", headers, secret)
    assert not is_signed(body, headers, "whsec_" + base64.b64encode(b"o" * 24).decode())
    assert not is_signed(body, {**headers, "webhook-timestamp": str(now - 301)}, secret)


def test_go_live(empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "webhook-header.txt").write_text("Bearer secret\n")
    environment = {
        "LATCHKEY_DATABASE_URL": empty_database_url,
        "LATCHKEY_SECRET_KEY": base64.b64encode(b"k" * 32).decode(),
    }
    project = ""
    for line in "".join(marked("go-live.md")["run"]).splitlines():
        assigned = re.fullmatch(r"PROJECT=\$\(latchkey (.+) \| jq -r \.id\)", line)
        command = assigned[1] if assigned else line.removeprefix("latchkey ").replace("$PROJECT", project)
        done = typed(*shlex.split(command), **environment)
        assert done.returncode == 0, (line, done.stderr)
        if assigned:
            project = json.loads(done.stdout)["id"]
    shown = typed("project", "list", "--json", **environment)
    assert json.loads(shown.stdout)["items"][0]["test_store"] == "closed"
