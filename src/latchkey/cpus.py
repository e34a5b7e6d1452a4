"""How many processors this process may use. A container often may use fewer than the machine has.

Two things limit it: the set of processors that it may run on (`taskset`, `docker run --cpuset-cpus`), and a quota of
time (`docker run --cpus`, a CPU limit of Kubernetes, `CPUQuota=` of systemd), which the kernel keeps in control groups.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_GROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def available_cpus(groups: Path = _GROUPS, own: Path = _OWN) -> int:
    """At least 1. A part of a processor counts as one: a quota of 1.5 keeps two processes busy."""
    allowed = _allowed()
    quotas = [math.ceil(quota) for quota in _quotas(groups, own)]
    return max(1, min([allowed, *quotas]))


def _allowed() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(groups: Path, own: Path) -> Iterator[float]:
    """Of our control group and those above it: each of them limits everything in it."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            for folder in _upwards(groups, path):
                yield from _version_2(folder)
        elif "cpu" in controllers.split(","):
            for folder in _upwards(groups / "cpu", path):
                yield from _version_1(folder)


def _upwards(root: Path, path: str) -> Iterator[Path]:
    """The folder of a group and of each group above it. In a container the path may be that of the host, and only the
    last of these folders exists."""
    inside = PurePosixPath(path.lstrip("/"))
    for one in (inside, *inside.parents):
        yield root / one


def _version_2(folder: Path) -> Iterator[float]:
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (folder / "cpu.max").read_text().split()
        if quota != "max":
            yield int(quota) / int(period)


def _version_1(folder: Path) -> Iterator[float]:
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        if quota > 0:
            yield quota / int((folder / "cpu.cfs_period_us").read_text())
