"""README and the tutorials: every block is typed as it stands, in order, in one data folder."""

import asyncio
import base64
import importlib.util
import json
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import pytest

from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.now import real_now
from latchkey.process.local_ca.authority import LocalCertificates, ensure_certificates
from latchkey.subjects.webhooks.delivery.sending.request import signature
from tests import machine
from tests.cli.running import LATCHKEY, Shell, Up, free_port, get
from tests.conftest import UNSAFE_BUT_FAST
from tests.docs.pages import ROOT, Terminal, blocks, type_into

TUTORIALS = ROOT / "docs" / "tutorials"
# In the order of the documentation, with the sections that a reader types.
PAGES: dict[str, tuple[str, ...]] = {
    "README.md": ("Five minutes to the first webhook", "A year in a second"),
    **{f"docs/tutorials/{one}.md": () for one in ("first-webhook", "fastapi", "flask", "django", "express")},
}
PRODUCTION: dict[str, tuple[str, ...]] = {"README.md": ("Running it for real",), "docs/tutorials/go-live.md": ()}
# What a page promises beside the blocks themselves.
PROMISED = {
    "README.md": ("ada has pro until", "Events on the way: 12."),
    "docs/tutorials/first-webhook.md": ("your app answered 200",),
}


def test_every_tutorial_is_typed() -> None:
    assert {f"docs/tutorials/{one.name}" for one in TUTORIALS.glob("*.md")} <= PAGES.keys() | PRODUCTION.keys()


@pytest.fixture(scope="module")
def home(short_folder: Path) -> Iterator[Path]:
    """A folder like a checkout, with `make run` in it and what the pages install."""
    home = short_folder / "checkout"
    (home / "tutorial").mkdir(parents=True)
    for venv in (home / ".venv", home / "tutorial" / "venv"):
        venv.symlink_to(Path(sys.executable).parents[1])
    with Up(home / ".latchkey", "--port", "0") as up:
        up.wait_until_ready()
        yield home
        assert up.ctrl_c() == 0


@pytest.mark.parametrize("page", PAGES)
def test_the_page_works_as_it_stands(home: Path, page: str) -> None:
    if page.endswith("express.md"):
        _install_express(home / "tutorial")
    # The only change: a port that nobody else uses.
    port = str(free_port())
    said, servers = "", []
    with ExitStack() as left_running:
        for block in blocks(page, *PAGES[page]):
            code = block.code.replace("3000", port)
            if block.file is not None:
                (home / block.file).write_text(code)
            elif block.ready is not None:
                server = left_running.enter_context(Terminal(home, code))
                server.wait_for(block.ready)
                servers.append(server)
            elif block.typed:
                printed = type_into(home, code)
                assert re.findall(r"^HTTP/\S+ (\d+)", printed, re.MULTILINE) == re.findall(r"# (\d{3})\b", code)
                said += printed
            elif not block.language:
                servers[0].wait_for(code.strip())
        for words in PROMISED.get(page, ()):
            if words not in said:
                servers[-1].wait_for(words)
        if page == "README.md":
            servers[0].wait_for("RENEWAL")
            assert re.search(r"INITIAL_PURCHASE +ada +#1 +answered 200", servers[0].output)
        for server in reversed(servers):
            server.ctrl_c()


def test_while_latchkey_cannot_be_reached_nobody_is_told_to_pay(home: Path) -> None:
    """Unknown is not no. All apps are asked at the same time, and their clients do not try again for half a minute."""
    changes = {"$(value base_url)": "https://127.0.0.1:1", ", project_id=": ", deadline=1, project_id="}
    changes["apiKey:"] = "deadlineMs: 1000, apiKey:"
    ports, servers = [], []
    with ExitStack() as left_running:
        for page in PAGES:
            # Without Node, the test of that page is skipped and says so.
            if page.endswith("express.md") and not (home / "tutorial" / "node_modules").exists():
                continue
            port = str(free_port())
            for block in blocks(page, *PAGES[page]):
                code = block.code.replace("3000", port)
                for found, ours in changes.items():
                    code = code.replace(found, ours)
                if block.file is not None:
                    (home / block.file).write_text(code)
                elif block.ready is not None and "$(value base_url)" in block.code:
                    servers.append((left_running.enter_context(Terminal(home, code)), block.ready))
                    ports.append(port)
        for server, ready in servers:
            server.wait_for(ready)
        asking = " & ".join(f"curl -i -H 'X-User: somebody' localhost:{port}/export" for port in ports)
        assert type_into(home, f"{asking} & wait").count(" 503 ") == len(ports) >= 3


def _install_express(folder: Path) -> None:
    machine.optional("node")
    packages = machine.downloaded(Path(__file__).parent / "express")
    shutil.copytree(packages, folder / "node_modules", symlinks=True)
    shutil.copytree(ROOT / "clients" / "javascript", folder / "node_modules" / "latchkey-client")


def test_the_signature_is_checked(tmp_path: Path) -> None:
    (block,) = (one for one in blocks("docs/tutorials/first-webhook.md") if one.file == "tutorial/signature.py")
    (tmp_path / "signature.py").write_text(block.code)
    spec = importlib.util.spec_from_file_location("tutorial_signature", tmp_path / "signature.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    secret, body, now = "whsec_" + base64.b64encode(b"s" * 24).decode(), b'{"event": {}}', int(time.time())
    headers = {"webhook-id": "e1", "webhook-timestamp": str(now)}
    headers["webhook-signature"] = f"v1,b2xk {signature([secret], 'e1', now, body)}"
    assert module.is_signed(body, headers, secret)
    assert not module.is_signed(body + b" ", headers, secret)
    assert not module.is_signed(body, headers, "whsec_" + base64.b64encode(b"o" * 24).decode())
    assert not module.is_signed(body, {**headers, "webhook-timestamp": str(now - 301)}, secret)


# Production: a PostgreSQL over TCP with a password, and a role that owns its databases and nothing else, as an operator
# or a cloud would set it up; and a certificate in files.


@pytest.fixture(scope="module")
def server(short_folder: Path) -> Iterator[tuple[int, LocalCertificates]]:
    folder = short_folder / "real"
    folder.mkdir()
    # PostgreSQL runs as a user of its own where the tests run as root.
    folder.chmod(0o755)
    (folder / "access").write_text("local all all peer map=latchkey\nhost all all 127.0.0.1/32 scram-sha-256\n")
    port = free_port()
    tcp = {"listen_addresses": "127.0.0.1", "port": str(port), "hba_file": str(folder / "access")}
    server = EmbeddedServer(folder / "server", settings={**UNSAFE_BUT_FAST, **tcp})
    server.start()
    try:
        asyncio.run(prepare(server.url("postgres").replace("?", f"?port={port}&")))
        yield port, ensure_certificates(folder / "tls", [], real_now())
    finally:
        server.stop()


async def prepare(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("create role latchkey login password 'correct-horse'")
    for number in range(len(PRODUCTION)):
        await connection.execute(f"create database shop_{number} owner latchkey")
    await connection.close()


@pytest.mark.parametrize(("number", "page"), list(enumerate(PRODUCTION)))
def test_running_it_for_real(server: tuple[int, LocalCertificates], number: int, page: str, tmp_path: Path) -> None:
    database, certificates = server
    script = "\n".join(block.code for block in blocks(page, *PRODUCTION[page]) if block.typed)
    # Only the operator's own values are replaced: addresses and files.
    url = f"'postgresql://latchkey:correct-horse@127.0.0.1:{database}/shop_{number}'"
    for theirs, ours in (
        ("postgresql://latchkey@db.internal/latchkey", url),
        ("/etc/latchkey/tls/fullchain.pem", str(certificates.cert)),
        ("/etc/latchkey/tls/privkey.pem", str(certificates.key)),
        ("0.0.0.0", f"127.0.0.1 LATCHKEY_PORT={free_port()}"),
        ("\nlatchkey serve", "\nexec latchkey serve"),
    ):
        assert theirs in script
        script = script.replace(theirs, ours)
    script = f"cd {tmp_path}\nPATH={LATCHKEY.parent}:$PATH\n{script}"
    with Shell(script, LATCHKEY_SHUTDOWN_DELAY_SECONDS="0") as running:
        address = f"https://127.0.0.1:{running.wait_for_event('ready')['port']}"
        said = running.output
        assert "/dashboard/invitations/" in said
        assert "✗" not in said
        for about in ("database", "schema", "secret key", "tls", "port"):
            assert f"✓ {about}" in said
        (key,) = re.findall(r"^sk_\w+$", said, re.MULTILINE)
        (project_id,) = set(re.findall(r"proj_[0-9a-f]+", said))
        authority = str(certificates.authority)
        assert get(address, authority, "/readyz")[0] == 200
        status, body = get(address, authority, f"/v2/projects/{project_id}", Authorization=f"Bearer {key}")
        assert (status, json.loads(body)["name"]) == (200, "My app")
        if page.endswith("go-live.md"):
            assert json.loads(body)["test_store"] == "closed"
            (public,) = re.findall(r"^appl_\w+$", said, re.MULTILINE)
            shown = get(address, authority, "/v1/subscribers/ada/offerings", Authorization=f"Bearer {public}")[1]
            (offering,) = json.loads(shown)["offerings"]
            assert [one["identifier"] for one in offering["packages"]] == ["$rc_monthly", "$rc_annual"]
        assert running.terminate() == 0
