"""The example app, run exactly as its README says."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture(params=["app", "flask_app", "django_app"])
def app(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def home(short_folder: Path, ports: tuple[str, str], up: Up, app: str) -> Iterator[Path]:
    """A folder like the project's own, with the service running in `.latchkey`."""
    home = short_folder / f"example_{app}"
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
def running(home: Path, ports: tuple[str, str], app: str) -> Iterator[Path]:
    start = START.replace(*ports)
    if app != "app":
        assert f"`examples.notes.{app}:app`" in PAGE.read_text()
        start = start.replace("--interface asgi", "--interface wsgi").replace("notes.app:", f"notes.{app}:")
    process = subprocess.Popen(["bash", "-euc", start], cwd=home, env=clean_environment(), start_new_session=True)
    authority = str(home / ".latchkey" / "tls" / "authority.pem")
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            assert get(f"https://127.0.0.1:{ports[1]}", authority, "/healthz")[0] == 200
            break
        except OSError:
            assert time.monotonic() < deadline, "the app did not start"
            assert process.poll() is None, "the app ended"
            time.sleep(0.05)
    yield home
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(PATIENCE) in (0, -signal.SIGTERM)


def test_the_page_is_true(running: Path, ports: tuple[str, str], app: str) -> None:
    # The apps share a service, and she has bought nothing yet.
    user = f"dora_{app}"
    done = subprocess.run(
        ["bash", "-euc", (FIRST + THEN).replace(*ports).replace("dora", user)],
        cwd=running,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stderr
    expected = [
        '{"notes":1}',
        '{"error":"Not authenticated"}',
        '{"error":"Access denied","required_entitlement":"pro"}',
        "INITIAL_PURCHASE",
        '{"user":"dora","notes":["milk"]}',
        '{"hasAccess":true,"entitlementId":"pro","source":"database"}',
        "REFUND",
        '{"error":"Access denied","required_entitlement":"pro"}',
    ]
    # Frameworks write JSON with and without spaces, and in orders of their own.
    assert _read(done.stdout.replace(user, "dora").splitlines()) == _read(expected)
    for line in expected[1:3] + expected[4:6]:
        assert line in PAGE.read_text()


def _read(lines: list[str]) -> list[Any]:
    return [json.loads(line) if line.startswith("{") else line for line in lines if line]


@pytest.mark.parametrize(
    ("app", "lines"),
    [
        ("app", ["app = FastAPI(lifespan=consumer.lifespan)", "consumer.install(app)"]),
        ("flask_app", ["app.register_blueprint(consumer.blueprint)", "g.app_user_id"]),
        ("django_app", ['path("", include(consumer.urls))', "request.app_user_id"]),
    ],
)
def test_the_page_shows_the_lines_of_the_app(app: str, lines: list[str]) -> None:
    code = (PROJECT / "examples" / "notes" / f"{app}.py").read_text()
    for line in (*lines, 'require_entitlement("pro")'):
        assert line in code
        assert line in PAGE.read_text()
