"""The log: its form, repeated errors, and a disk without room."""

import io
import json
import subprocess
import sys
from typing import IO, Any, cast

import pytest
import structlog

from latchkey import logs
from latchkey.logs import LogStream

PROGRAM = """
import sys
import structlog
from latchkey import logs

logs.configure("info", sys.argv[1])

def send(authorization):
    raise RuntimeError("the receiver is gone")

try:
    send("Bearer " + "-".join(["very", "secret"]))
except RuntimeError:
    structlog.get_logger().exception("failed")
"""


def test_a_log_that_is_not_on_a_terminal_has_no_colours() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, "pretty"], capture_output=True, text=True, check=True)
    assert "failed" in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("form", ["json", "pretty"])
def test_a_traceback_shows_no_local_variables(form: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, form], capture_output=True, text=True, check=True)
    assert "the receiver is gone" in done.stderr
    assert "send" in done.stderr
    assert "very-secret" not in done.stdout + done.stderr


def test_an_error_that_repeats_writes_one_traceback_a_minute_and_a_line_each_time() -> None:
    now = 0.0
    limit = logs.Tracebacks(lambda: now)

    def fails(error: Exception) -> dict[str, Any]:
        try:
            raise error
        except Exception as raised:
            return dict(limit(None, "error", {"event": "request failed", "exc_info": raised}))

    assert "exc_info" in fails(OSError("no route"))
    now = 59.0
    assert fails(OSError("no route")) == {"event": "request failed", "error": "OSError: no route"}
    # Another error has a traceback of its own.
    assert "exc_info" in fails(ValueError("7"))
    now = 60.0
    assert "exc_info" in fails(OSError("no route"))


class Disk(io.RawIOBase):
    """A file on a disk with `room` bytes left."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.content = b""

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]  # only bytes come here
        taken = bytes(data)[: self.room]
        if data and not taken:
            raise OSError(28, "No space left on device")
        self.room -= len(taken)
        self.content += taken
        return len(taken)


def test_lines_that_find_no_room_are_dropped_and_counted() -> None:
    disk = Disk(room=10)
    stream = LogStream(cast("IO[bytes]", disk))
    stream.write(b"one\n")
    stream.write(b"two, which is cut\n")
    stream.write(b"three\n")
    stream.write(b"four\nfive\n")
    disk.room = 1_000
    stream.write("six\n")
    lines = disk.content.decode().splitlines()
    assert lines[:2] == ["one", "two, w"]
    assert json.loads(lines[2]) == {"event": "log_lines_dropped", "level": "warning", "count": 4}
    assert lines[3:] == ["six"]


def test_a_closed_stream_is_no_failure() -> None:
    file = io.BytesIO()
    stream = LogStream(file)
    file.close()
    stream.write(b"nobody reads this\n")


@pytest.mark.parametrize("form", ["json", "pretty"])
def test_neither_form_of_the_log_fails_on_a_full_disk(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stderr", full)
        logs.configure("info", form)
        log = structlog.get_logger()
        for _ in range(100):
            log.info("said", text="x" * 1000)
        try:
            raise RuntimeError("something failed")
        except RuntimeError:
            log.exception("failed")
