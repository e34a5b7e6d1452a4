"""The example app, run exactly as its README says."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Up, clean_environment, free_port, get
from tests.patience import PATIENCE
from tests.web_sdk.shopper import call

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "examples" / "notes" / "README.md"
START, FIRST, THEN = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def ports() -> tuple[str, str]:
    """That of the page, which may be in use on this machine, and the one to use."""
    return "9443", str(free_port())


@pytest.fixture
def home(short_folder: Path, ports: tuple[str, str], up: Up) -> Iterator[Path]:
    """A folder like the project's own, with the service running in `.latchkey`."""
    home = short_folder / "example"
    home.mkdir()
    (home / ".venv").symlink_to(Path(sys.executable).parents[1])
    shutil.copytree(PROJECT / "examples", home / "examples")
    connect = home / "examples" / "notes" / "connect.py"
    connect.write_text(connect.read_text().replace(*ports))
    (home / ".latchkey").symlink_to(up.folder)
    yield home
    for webhook in call(up, "GET", "integrations/webhooks")["items"]:
        if webhook["name"] == "Notes":
            call(up, "DELETE", f"integrations/webhooks/{webhook['id']}")


@pytest.fixture
def running(home: Path, ports: tuple[str, str]) -> Iterator[Path]:
    app = subprocess.Popen(
        ["bash", "-euc", START.replace(*ports)], cwd=home, env=clean_environment(), start_new_session=True
    )
    authority = str(home / ".latchkey" / "tls" / "authority.pem")
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            assert get(f"https://127.0.0.1:{ports[1]}", authority, "/healthz")[0] == 200
            break
        except OSError:
            assert time.monotonic() < deadline, "the app did not start"
            assert app.poll() is None, "the app ended"
            time.sleep(0.05)
    yield home
    os.killpg(app.pid, signal.SIGTERM)
    app.wait(PATIENCE)


def test_the_page_is_true(running: Path, ports: tuple[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-euc", (FIRST + THEN).replace(*ports)],
        cwd=running,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == [
        '{"notes":1}',
        '{"error":"Not authenticated"}',
        '{"error":"Access denied","required_entitlement":"pro"}',
        "INITIAL_PURCHASE",
        '{"user":"dora","notes":["milk"]}',
        '{"hasAccess":true,"entitlementId":"pro","source":"database"}',
        "REFUND",
        '{"error":"Access denied","required_entitlement":"pro"}',
        "",
    ]
    for line in done.stdout.splitlines()[1:3] + done.stdout.splitlines()[4:6]:
        assert line in PAGE.read_text()


def test_the_page_shows_the_lines_of_the_app() -> None:
    code = (PROJECT / "examples" / "notes" / "app.py").read_text()
    for line in ("app = FastAPI(lifespan=consumer.lifespan)", "consumer.install(app)", 'require_entitlement("pro")'):
        assert line in code
        assert line in PAGE.read_text()
