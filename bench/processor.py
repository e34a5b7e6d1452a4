"""CPU time of processes and of everything they started, from /proc."""

import os
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # its stubs are a separate package

_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def spent_ms(pid: int) -> float:
    """User and system time so far of a process, of its threads and of its children, those that ended included."""
    process = psutil.Process(pid)
    return sum(_one(pid) for pid in (pid, *(child.pid for child in process.children(recursive=True))))


def _one(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        # It ended just now: its parent counts it among those that ended.
        return 0.0
    return sum(int(field) for field in fields[11:15]) * _TICK_MS
