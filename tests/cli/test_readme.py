"""The README's commands, run exactly as the page says."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from latchkey.cli.authority import Certificates, ensure_certificates
from latchkey.now import real_now
from latchkey.storage.embedded.server import EmbeddedServer
from tests.cli.running import LATCHKEY, Running, Shell, Up, free_port, get
from tests.conftest import UNSAFE_BUT_FAST
from tests.patience import PATIENCE

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture(scope="module")
def home(short_folder: Path) -> Iterator[Path]:
    """A folder like the project's own, with the service running in `.latchkey`."""
    home = short_folder / "readme"
    home.mkdir()
    (home / ".venv").symlink_to(Path(sys.executable).parents[1])
    with Up(home / ".latchkey", "--port", "0") as up:
        up.wait_until_ready()
        yield home
        assert up.ctrl_c() == 0


def blocks(heading: str) -> list[str]:
    section = README.read_text().split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def shell(home: Path, script: str) -> str:
    done = subprocess.run(["bash", "-euc", script], cwd=home, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_five_minutes_to_the_first_webhook(home: Path) -> None:
    with Running("receiver", "--data", home / ".latchkey") as receiver:
        receiver.wait_for("Press Ctrl-C")
        shown = shell(home, blocks("Five minutes to the first webhook")[0])
        assert '"type":"INITIAL_PURCHASE"' in shown
        assert "ada has pro until" in shown
        receiver.wait_for("INITIAL_PURCHASE")
        assert re.search(r"INITIAL_PURCHASE +ada +#1 +answered 200", receiver.output)
        assert receiver.ctrl_c() == 0
    listed = shell(
        home,
        blocks("Five minutes to the first webhook")[0].split("\n\n")[0]
        + "\nlk $LK_BASE_URL/v2/projects/$LK_PROJECT_ID/integrations/webhooks",
    )
    assert '"name":"latchkey receiver"' not in listed, "the receiver did not delete its webhook when it ended"


def test_a_year_in_a_second(home: Path) -> None:
    preparation = blocks("Five minutes to the first webhook")[0].split("\n\n")[0]
    clock, customer, purchase, advance = blocks("A year in a second")[0].strip().splitlines()
    found = re.search(r"clk_\w+", shell(home, f"{preparation}\n{clock}"))
    assert found is not None
    rest = "\n".join((customer, purchase, advance)).replace("clk_...", found.group())
    assert '"events_count":12' in shell(home, f"{preparation}\n{rest}")


# Running it for real: a PostgreSQL over TCP with a password, and a role that owns one database and nothing else, as an
# operator or a cloud would set it up; and a certificate in files.


@dataclass(frozen=True, slots=True)
class Site:
    url: str
    certificates: Certificates


@pytest.fixture(scope="module")
def site(short_folder: Path) -> Iterator[Site]:
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
        url = f"postgresql://latchkey:correct-horse@127.0.0.1:{port}/shop"
        yield Site(url, ensure_certificates(folder / "tls", [], real_now()))
    finally:
        server.stop()


async def prepare(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("create role latchkey login password 'correct-horse'")
    await connection.execute("create database shop owner latchkey")
    await connection.close()


def test_running_it_for_real(site: Site, tmp_path: Path) -> None:
    (block,) = blocks("Running it for real")
    preparation, commands = block.split("\n\n")
    # Only the operator's own values are replaced: addresses, files and the project's id.
    for theirs, ours in (
        ("postgresql://latchkey@db.internal/latchkey", f"'{site.url}'"),
        ("/etc/latchkey/tls/fullchain.pem", str(site.certificates.cert)),
        ("/etc/latchkey/tls/privkey.pem", str(site.certificates.key)),
        ("0.0.0.0", "127.0.0.1"),
    ):
        assert theirs in preparation
        preparation = preparation.replace(theirs, ours)
    migrate, project, *more, serve = commands.strip().splitlines()
    assert serve == "latchkey serve"
    named = "\n".join(more).replace("proj_...", "$project")
    script = f"""
cd {tmp_path}
PATH={LATCHKEY.parent}:$PATH
{preparation}
export LATCHKEY_PORT={free_port()}
{migrate}
{{ {project}
}} | tee project.txt
project=$(grep -om1 'proj_[0-9a-f]*' project.txt | head -1)
{named}
exec {serve}
"""
    with Shell(script) as running:
        running.wait_for_event("ready")
        said = running.output
        assert re.search(r"^sk_\w+$", said, re.MULTILINE)
        assert "/dashboard/invitations/" in said
        assert "✗" not in said
        for about in ("database", "schema", "secret key", "tls", "port"):
            assert f"✓ {about}" in said
        (key,) = re.findall(r"^sk_\w+$", said, re.MULTILINE)
        (project_id,) = set(re.findall(r"proj_[0-9a-f]+", said))
        address = f"https://127.0.0.1:{running.wait_for_event('ready')['port']}"
        authority = str(site.certificates.authority)
        assert get(address, authority, "/readyz")[0] == 200
        status, body = get(address, authority, f"/v2/projects/{project_id}", Authorization=f"Bearer {key}")
        assert (status, json.loads(body)["name"]) == (200, "My app")
        assert running.terminate() == 0
