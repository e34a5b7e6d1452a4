"""The units of deploy/systemd, and what systemd does by them with a database that is away or refuses us."""

import base64
import re
import shlex
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from latchkey.database.embedded.postgres import EmbeddedServer
from tests.cli.running import LATCHKEY, Shell
from tests.conftest import UNSAFE_BUT_FAST
from tests.deploy.test_deploy_files import DEPLOY, needs

FOLDER = DEPLOY / "systemd"
PROGRAM = "/opt/latchkey/bin/latchkey"


class Unit:
    """One unit, whose credentials are files in a folder."""

    def __init__(self, name: str, credentials: Path) -> None:
        self.directives: defaultdict[str, list[str]] = defaultdict(list)
        for key, value in re.findall(r"^(\w+)=(.*)$", (FOLDER / name).read_text(encoding="utf-8"), re.MULTILINE):
            self.directives[key].append(value)
        self.credentials = credentials

    def started(self, *words: str) -> Shell:
        """As systemd starts it, in its environment."""
        (command,) = self.directives["ExecStart"]
        command = command.replace(PROGRAM, str(LATCHKEY)).replace("/etc/latchkey", str(FOLDER))
        environment = [one.replace("%d", str(self.credentials)) for one in self.directives["Environment"]]
        exported = shlex.join([*environment, "LATCHKEY_PORT=0", "LATCHKEY_SHUTDOWN_DELAY_SECONDS=0"])
        return Shell(f"export SYSTEMD_EXEC_PID=$$ {exported}; exec {command} {shlex.join(words)}")

    def is_restarted_after(self, code: int) -> bool:
        kept_down = [status for line in self.directives["RestartPreventExitStatus"] for status in line.split()]
        return self.directives["Restart"] == ["on-failure"] and code != 0 and str(code) not in kept_down


@pytest.fixture
def units(tmp_path: Path) -> tuple[Unit, Unit]:
    (tmp_path / "secret-key").write_text(base64.b64encode(b"k" * 32).decode())
    return Unit("latchkey-migrate.service", tmp_path), Unit("latchkey.service", tmp_path)


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    needs("systemd-analyze")
    paths = []
    for path in sorted(FOLDER.glob("*.service")):
        # Latchkey is not installed there on this machine.
        paths.append(tmp_path / path.name)
        paths[-1].write_text(path.read_text(encoding="utf-8").replace(PROGRAM, "/bin/true"))
    assert len(paths) == 2
    command = ["systemd-analyze", "verify", "--man=no", *map(str, paths)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=300)
    said = [line for line in told.stderr.splitlines() if "latchkey" in line]
    assert (said, told.returncode) == ([], 0)


def test_the_service_is_started_after_the_tables_and_alone_gets_sigterm(units: tuple[Unit, Unit]) -> None:
    directives = units[1].directives
    assert directives["Requires"] == ["latchkey-migrate.service"]
    assert "latchkey-migrate.service" in directives["After"][0].split()
    assert directives["KillMode"] == ["mixed"]


def test_units_started_while_the_database_is_away_wait_for_it(units: tuple[Unit, Unit], short_folder: Path) -> None:
    server = EmbeddedServer(short_folder / "away", settings=UNSAFE_BUT_FAST)
    server.start()
    (units[0].credentials / "database-url").write_text(server.url())
    try:
        for unit in units:
            server.stop()
            with unit.started() as running:
                running.wait_for("waiting for the database")
                server.start()
                if unit.directives["Type"] == ["oneshot"]:
                    assert running.ended() == 0, running.output
                else:
                    running.wait_for_event("ready")
                    assert running.terminate() == 0
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("address", "words", "is_restarted"),
    [
        ("postgresql://b:hunter2@127.0.0.1:1/x", ["--no-wait"], True),
        ("not an address", [], False),
        ("no_such_database", [], False),
    ],
)
def test_a_wrong_address_keeps_the_units_down_and_an_outage_does_not(
    units: tuple[Unit, Unit], postgres: EmbeddedServer, address: str, words: list[str], is_restarted: bool
) -> None:
    if address == "no_such_database":
        address = postgres.url(address)
    for unit in units:
        (unit.credentials / "database-url").write_text(address)
        with unit.started(*words) as running:
            assert unit.is_restarted_after(running.ended()) == is_restarted, running.output
            assert "hunter2" not in running.output
