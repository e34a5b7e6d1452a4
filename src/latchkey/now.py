"""The real clock. Read only at the outermost layer; everything inside is told what time it is."""

from __future__ import annotations

import time


def real_now() -> int:
    """This instant in epoch milliseconds."""
    return time.time_ns() // 1_000_000
