"""How long the steps of a start took, for whoever waited for it."""

from __future__ import annotations

import time

from latchkey.cli.start import BEGAN


class Timings:
    """Counts from the start of this process: what comes before the first step is the loading of code."""

    def __init__(self) -> None:
        self._last = BEGAN
        self._steps: list[tuple[str, float]] = []

    def done(self, step: str) -> None:
        now = time.monotonic()
        self._steps.append((step, now - self._last))
        self._last = now

    def __str__(self) -> str:
        steps = ", ".join(f"{step} {seconds:.1f}" for step, seconds in self._steps)
        return f"{sum(seconds for _, seconds in self._steps):.1f} s ({steps})"
