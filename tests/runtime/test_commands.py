"""`latchkey push sandbox` and `latchkey device` on the command line."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from latchkey.push.push_client import PushClient
from latchkey.push.push_notification import PushNotification, PushResult
from tests.cli.running import Running, typed

HELLO = PushNotification({"en": "Hello [bold]you[/bold]"}, {"en": "Demo"})


@pytest.fixture(scope="module")
def data(short_folder: Path) -> Iterator[Path]:
    """The folder of a running sandbox."""
    folder = short_folder / "push-sandbox"
    with Running("push", "sandbox", "--data", folder) as running:
        running.wait_for("Press Ctrl-C to stop")
        key = json.loads((folder / "connection.json").read_text())["push"]["rest_api_key"]
        yield folder
        assert running.ctrl_c() == 0
        assert key not in running.output
        assert "Traceback" not in running.output


async def send(push: dict[str, str], authority: bytes, player_id: str) -> PushResult:
    async with PushClient(push["base_url"], push["app_id"], push["rest_api_key"], extra_ca=authority) as client:
        return await client.send(HELLO, [player_id])


def test_a_phone_from_the_command_line_gets_a_notification(data: Path, chromium: Path) -> None:
    connection = json.loads((data / "connection.json").read_text())
    push = connection["push"]
    with Running("device", f"{push['base_url']}/healthz", "--data", data) as phone:
        phone.wait_for("Press Ctrl-C to stop")
        id = next(line for line in phone.lines if "Player id: " in line).split()[-1]
        assert asyncio.run(send(push, Path(connection["ca_cert"]).read_bytes(), id)).anybody
        phone.wait_for("🔔 Demo: Hello [bold]you[/bold]")
        assert phone.ctrl_c() == 0
        assert "Traceback" not in phone.output
    told = typed("push", "sent", "--data", data)
    assert told.returncode == 0
    assert "Hello" in told.stdout


def test_the_command_sends_a_push_to_one_user(data: Path, tmp_path: Path) -> None:
    connection = json.loads((data / "connection.json").read_text())
    push = connection["push"]
    values = {
        "service_url": "https://service.test", "project_id": "p", "api_key": "sk_key", "webhook_secret": "secret",
        "database_url": f"sqlite:///{tmp_path / 'consumer.db'}", "push_api_url": push["base_url"],
        "push_app_id": push["app_id"], "push_rest_api_key": push["rest_api_key"], "push_ca": connection["ca_cert"],
    }  # fmt: skip
    environment = {f"LATCHKEY_CONSUMER_{name.upper()}": value for name, value in values.items()}
    told = typed("push", "send", "ada", "Hello", **environment)
    assert (told.returncode, told.stdout) == (1, "Not sent: ada has no device that accepts notifications.\n")
    told = typed("push", "send", "ada", "Hello")
    assert told.returncode == 2
    assert "LATCHKEY_CONSUMER_SERVICE_URL" in told.stderr


def test_without_chromium_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    told = typed("device", "https://127.0.0.1:1/", "--data", tmp_path)
    assert told.returncode == 1
    assert "apt-get install chromium" in told.stderr
    told = typed("device", "https://127.0.0.1:1/", "--data", tmp_path, LATCHKEY_CHROMIUM="/nowhere/chromium")
    assert "LATCHKEY_CHROMIUM is /nowhere/chromium" in told.stderr


def test_without_a_screen_a_window_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    told = typed("device", "https://127.0.0.1:1/", "--data", tmp_path, "--window")
    assert told.returncode == 1
    assert "Leave out --window" in told.stderr


def test_an_address_that_is_no_web_app_and_a_folder_without_a_sandbox_are_one_line(tmp_path: Path) -> None:
    for words, complaint in (
        (("device", "http://example.com/"), "only https://"),
        (("device", "nonsense"), "not the address of a web app"),
        (("push", "sent"), "is not the folder of a running"),
    ):
        told = typed(*words, "--data", tmp_path)
        assert told.returncode == 1
        assert complaint in told.stderr
        assert told.stderr.count("\n") == 1
