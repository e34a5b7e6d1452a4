"""The real clock. Only the outermost layer reads it; everything else gets the time as a parameter."""

import time


def real_now() -> int:
    """The current time in epoch milliseconds."""
    return time.time_ns() // 1_000_000
