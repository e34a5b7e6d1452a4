"""A logged traceback says where a failure happened, and shows no local variables."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from latchkey import logs

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
