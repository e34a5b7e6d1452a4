"""A log that cannot be written breaks nothing, and says later how many lines were dropped."""

from __future__ import annotations

import io
import json
from typing import IO, cast

import pytest
import structlog

from latchkey import logs
from latchkey.api.access_log import AccessLog, Line
from latchkey.log_stream import LogStream


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


def test_the_access_log_does_not_fail_on_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stderr", full)
        logs.configure("info", "json")
        access_log = AccessLog()
        access_log._lines.append(Line("r", "GET", "/readyz", 200, 1.0, 15, None, None, "127.0.0.1"))
        access_log._write()
