"""The start of a process: its code is loaded without garbage collection. Imports only the standard library.

Loading makes some 500,000 objects, and nearly all of them stay until the process ends. With the collector on, Python
looks at them again and again, and once more at exit: a third of the CPU of a start. Cyclic garbage is collected as
usual from the moment on when the code is loaded.
"""

import contextlib
import gc
import signal
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

# A thread at work outside Python (DuckDB asks for the interpreter after each of its steps) waits for it no longer than
# this while the event loop is busy. At Python's own 5 ms, a chart took seconds on a busy server.
_SWITCH_SECONDS = 0.0005
# The command line imports this module first.
BEGAN = time.monotonic()


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


def loading() -> None:
    gc.disable()


def loaded() -> None:
    """After `loading()`: the collector works again and never looks at what was loaded. Otherwise nothing changes."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def load(module: str, roles: Sequence[str]) -> ModuleType:
    """Imports the module of a process. Where it has a function `load`, that imports what these roles need."""
    loading()
    found = import_module(module)
    if hasattr(found, "load"):
        found.load(roles)
    loaded()
    return found


def name_process(name: str) -> None:
    """What `ps` and `top` show of it on Linux; at most 15 characters."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name)


def run(module: str, socket: int, roles: Sequence[str]) -> None:
    """A process of the supervisor: runs the module's `main`."""
    name_process(",".join(roles))
    sys.setswitchinterval(_SWITCH_SECONDS)
    found = load(module, roles)
    sys.argv = [sys.argv[0], str(socket), *roles]
    found.main()


def main() -> None:
    """`python -m latchkey.process.supervision.start MODULE SOCKET ROLE ...`"""
    # Ctrl-C reaches the whole process group; the supervisor decides and sends us SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run(sys.argv[1], int(sys.argv[2]), sys.argv[3:])


if __name__ == "__main__":
    main()
