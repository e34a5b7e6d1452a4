"""What took the time of a start."""

from __future__ import annotations

import time

import pytest

from latchkey.cli import start
from latchkey.cli.timings import Timings


def test_each_step_and_their_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    timings = Timings()
    for seconds, step in ((0.7, "code"), (1.0, "database"), (2.25, "processes")):
        monkeypatch.setattr(time, "monotonic", lambda seconds=seconds: start.BEGAN + seconds)
        timings.done(step)
    assert str(timings) == "2.2 s (code 0.7, database 0.3, processes 1.2)"
