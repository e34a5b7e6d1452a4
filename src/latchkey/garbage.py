"""How often Python looks for garbage in a process that serves."""

from __future__ import annotations

import gc


def collect_seldom() -> None:
    """Collecting took about a tenth of a read or of a delivery, and a quarter of an event received; what start-up made
    need not be walked through again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
