"""Cleans up after a killed owner: a PostgreSQL that still runs, and its pid file.

The caller holds the folder's lock, so whatever still runs on the folder has no owner. It is stopped, not reused: a new
start takes a third of a second, and is certain to have our settings and none of the dead owner's clients.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # ships no types

from latchkey.database.errors import EmbeddedServerError


def stop_leftovers(data: Path, said: Callable[[str], None]) -> None:
    """Stop every postgres that runs on `data`, then remove its stale pid file."""
    found = processes_on(data)
    if found:
        said("Stopping PostgreSQL processes that were left behind")
        main = [process for process in found if process.pid == _main_process(data)]
        # Fast shutdown of the main process, which ends the others; then stronger signals. Without a main process, the
        # others would take an interrupt only as the end of a query.
        politely = [(main, signal.SIGINT, 30.0), (main, signal.SIGQUIT, 5.0)] if main else []
        for targets, number, patience in (
            *politely,
            (found, signal.SIGQUIT, 5.0),
            (found, signal.SIGKILL, 30.0),
        ):
            for process in targets:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
            if _ended(found, patience):
                break
    still = processes_on(data)
    if still:
        raise EmbeddedServerError(
            f"PostgreSQL (process {still[0].pid}) runs on {data} and does not stop. Stop it first."
        )
    # Only now: PostgreSQL uses this file to check whether a running pid is its own. After a reboot, or in a container,
    # another process may have the same number.
    (data / "postmaster.pid").unlink(missing_ok=True)


def processes_on(data: Path) -> list[psutil.Process]:
    """PostgreSQL's processes have the data folder as working directory, which is more reliable than a command line."""
    place = os.path.realpath(data)
    found = []
    for process in psutil.process_iter(["name"]):
        if not (process.info["name"] or "").startswith("postgres"):
            continue
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and process.cwd() == place:
                found.append(process)
    return found


def _ended(processes: list[psutil.Process], patience: float) -> bool:
    # psutil's own wait backs off to a second and more; a postmaster without clients ends within ten milliseconds.
    deadline = time.monotonic() + patience
    while any(_lives(process) for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _main_process(data: Path) -> int | None:
    try:
        return int((data / "postmaster.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
