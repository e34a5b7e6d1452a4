"""The app runtime: the shipped reference device shows a page of the suite's own, which asks the bridge."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conformance.https import Request, Server, ask, serving, wait_for
from conformance.life import World
from conformance.service import LATCHKEY, environment
from conformance.statements import shows

# The first thing that the page does. It loads no other script.
SCRIPT = """<!doctype html><script>
window.bridge = "getpushplayerid://";
const id = window.pushplayerid === undefined ? "undefined" : window.pushplayerid;
const report = {id, state: document.readyState, scripts: document.scripts.length};
navigator.serviceWorker.getRegistrations().then((workers) =>
  fetch("/report", {method: "POST", body: JSON.stringify({...report, workers: workers.length})}));
</script>"""


@dataclass(frozen=True)
class Phone:
    saw: Any  # what the page reported
    log: Path


def report_to(app: Server) -> Any:
    def found() -> Request | None:
        return next((request for request in list(app.requests) if request.path == "/report"), None)

    return wait_for(found, "the page's report", 60).json


def shows_page(app: Server, page: str) -> None:
    app.answer = lambda request: (200, page) if request.method == "GET" else (200, {})


@contextmanager
def running(world: World, folder: Path, *words: str, page: str = SCRIPT) -> Iterator[Phone]:
    """The device, when its page has reported."""
    if world.service.data is None:
        pytest.skip("needs the push provider of a `latchkey up`")
    if not any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")):
        pytest.skip("needs Chromium")
    with serving(*world.service.certificates) as app:
        shows_page(app, page)
        places = ["--data", str(world.service.data), "--state", str(folder)]
        command = [str(LATCHKEY), "device", f"{app.address}/", *places, *words]
        log = folder.with_suffix(".log")
        with log.open("wb") as output:
            device = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment())
        try:
            yield Phone(report_to(app), log)
        finally:
            device.terminate()
            device.wait(30)


@shows("1.10", "2.7.1", "4.4.1-3", "6.35")
def test_the_player_id_is_there_right_after_the_command(world: World, tmp_path: Path) -> None:
    before = len(world.receiver.requests)
    with running(world, tmp_path / "phone") as phone:
        assert isinstance(phone.saw["id"], str)
        assert len(phone.saw["id"]) > 10
        assert phone.saw["state"] == "loading", "the page is not even read to its end"
    with running(world, tmp_path / "phone") as again, running(world, tmp_path / "other") as other:
        assert again.saw["id"] == phone.saw["id"], "it identifies the device"
        assert other.saw["id"] != phone.saw["id"]
    assert len(world.receiver.requests) == before, "the command emits no events"


@shows("4.4.6")
def test_a_push_arrives_on_a_device_whose_page_has_no_sdk(world: World, tmp_path: Path) -> None:
    with running(world, tmp_path / "phone") as phone:
        assert (phone.saw["scripts"], phone.saw["workers"]) == (1, 0)
        provider, text = world.service.push, f"for {phone.saw['id']}"
        body = {"app_id": provider["app_id"], "include_player_ids": [phone.saw["id"]], "contents": {"en": text}}
        key = f"Basic {provider['rest_api_key']}"
        path = "/api/v1/notifications"
        sent = ask(provider["base_url"], "POST", path, body, ca=world.service.ca, authorization=key)
        assert sent.status == 200, sent
        wait_for(lambda: text in phone.log.read_text(), "the notification on the screen")


@shows("5.9")
def test_only_pages_of_the_app_itself_have_the_bridge(world: World, tmp_path: Path) -> None:
    with serving(*world.service.certificates) as elsewhere:
        shows_page(elsewhere, SCRIPT)
        page = f"{SCRIPT}<iframe src='{elsewhere.address}/'></iframe>"
        with running(world, tmp_path / "phone", page=page) as phone:
            assert isinstance(phone.saw["id"], str)
            assert report_to(elsewhere)["id"] == "undefined"


@shows("7.19", "7.20")
def test_without_an_id_the_page_goes_on_with_null(world: World, tmp_path: Path) -> None:
    with running(world, tmp_path / "phone", "--deny-notifications") as phone:
        assert phone.saw["id"] is None
