"""Looks after processes that run but do not work: one says every second that its event loop turns, and
is killed and started again if it is silent for too long. Those that crash again and again are reported.

Time is counted in turns of the supervisor's own loop, not by a clock: after the whole machine was suspended or starved,
no process is blamed for it.
"""

import contextlib
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import structlog

from latchkey.process.supervision.fork_server import Process

log = structlog.get_logger()

SERVICE = "latchkey.process.supervision.child"
EVERY_SECONDS = 0.2
# Far longer than an event loop is ever busy with one thing.
HANGS_AFTER_SECONDS = 30.0
# Long: on a busy machine a start can take a minute instead of a second.
START_PATIENCE = 15 * 60.0
# A process that ran this long was healthy: its crash count starts again.
HEALTHY_AFTER = 30.0
# So many crashes in a row are reported by /readyz.
STORM = 3


@dataclass(slots=True)
class Child:
    name: str
    roles: tuple[str, ...]
    listening: socket.socket | None = None
    # More sockets for it. Its settings say by number which is which.
    also: tuple[socket.socket, ...] = ()
    # The program, and its settings if they differ from the service's.
    module: str = SERVICE
    settings: dict[str, object] | None = field(default=None, repr=False)
    # Its code is loaded only when it gets its settings: the others need the CPU first.
    later: bool = False
    # It gets its settings when everything else is up.
    reserve: bool = False
    process: Process | None = None
    line: socket.socket | None = None
    ready: bool = False
    crashes: int = 0
    began: float = 0.0
    # Turns since it said something.
    silent: int = 0
    # Which processes crash again and again, as it was told last.
    told: tuple[str, ...] = ()

    @property
    def answers(self) -> bool:
        """Whether it is one of several that answer requests."""
        return self.module == SERVICE and self.listening is not None

    def heard(self) -> None:
        self.silent = 0

    def starts(self) -> None:
        """A new process is being started for it."""
        self.ready, self.silent, self.told = False, 0, ()
        self.began = time.monotonic()


class Tending:
    """Called by the supervisor: `turn` every now and then, and `tell` when something happened."""

    def __init__(self, children: Sequence[Child], hangs_after_seconds: float = HANGS_AFTER_SECONDS) -> None:
        self._children = children
        self._hangs_after = hangs_after_seconds / EVERY_SECONDS

    def turn(self) -> None:
        for child in self._children:
            self._check(child)
        self.tell()

    def tell(self) -> None:
        """Tell every process that answers requests which ones crash again and again."""
        restarting = tuple(child.name for child in self._children if child.crashes >= STORM)
        for child in self._children:
            if child.answers and child.ready and restarting != child.told and child.line is not None:
                # It has ended, or it hangs and its buffer is full. The next turn tries again.
                with contextlib.suppress(OSError):
                    child.line.send(msgspec.json.encode(restarting) + b"\n")
                    child.told = restarting

    def _check(self, child: Child) -> None:
        if child.process is None or child.process.returncode is not None:
            return
        if child.crashes and child.ready and time.monotonic() - child.began > HEALTHY_AFTER:
            child.crashes = 0
        child.silent += 1
        if child.module == SERVICE and child.silent > (
            self._hangs_after if child.ready else START_PATIENCE / EVERY_SECONDS
        ):
            log.error("process hangs", process=child.name, pid=child.process.pid, action="killed")
            child.silent = 0
            child.process.kill()
