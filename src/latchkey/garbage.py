"""Garbage collection settings of a serving process."""

import gc


def collect_seldom() -> None:
    """Garbage collection took about a tenth of a read or a delivery, and a quarter of an event received. Objects
    created at start-up are frozen, so that they are not examined again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
