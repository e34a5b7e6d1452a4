"""The app runtime: the shipped reference device shows a page of the suite's own, which asks the bridge."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conformance.https import serving, wait_for
from conformance.life import World
from conformance.service import LATCHKEY, environment
from conformance.statements import shows

# The first thing that the page does. It loads no other script.
PAGE = """<!doctype html><script>
window.bridge = "getpushplayerid://";
const id = window.pushplayerid;
fetch("/report", {method: "POST", body: JSON.stringify({id: id === undefined ? "undefined" : id})});
</script>"""


@contextmanager
def reported(world: World, folder: Path, *words: str) -> Iterator[Any]:
    """What the page saw on a device."""
    if world.service.data is None:
        pytest.skip("needs the push provider of a `latchkey up`")
    if not any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")):
        pytest.skip("needs Chromium")
    with serving(*world.service.certificates) as app:
        app.answer = lambda request: (200, PAGE) if request.method == "GET" else (200, {})
        places = ["--data", str(world.service.data), "--state", str(folder)]
        command = [str(LATCHKEY), "device", f"{app.address}/", *places, *words]
        with (folder.parent / "device.log").open("wb") as log:
            device = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment())
        try:
            sent = wait_for(
                lambda: next((request for request in list(app.requests) if request.path == "/report"), None),
                "the page's report",
                60,
            )
            yield sent.json["id"]
        finally:
            device.terminate()
            device.wait(30)


@shows("1.10", "4.4.1", "4.4.2", "4.4.3", "4.4.6", "6.35")
def test_the_player_id_is_there_right_after_the_command(world: World, tmp_path: Path) -> None:
    before = len(world.receiver.requests)
    with reported(world, tmp_path / "phone") as id:
        assert isinstance(id, str)
        assert len(id) > 10
    with reported(world, tmp_path / "phone") as again:
        assert again == id, "it identifies the device"
    assert len(world.receiver.requests) == before, "the command emits no events"


@shows("7.19", "7.20")
def test_without_an_id_the_page_goes_on_with_null(world: World, tmp_path: Path) -> None:
    with reported(world, tmp_path / "phone", "--deny-notifications") as id:
        assert id is None
