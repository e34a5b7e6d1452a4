"""Looks after processes that run but do not work (decision 0093).

- A process says every second that its event loop turns. One that is silent for too long is killed, and started again.
- Each process that answers requests has a listening socket of its own. After it has ended, and whenever connections
  wait at its socket, two others are asked to accept connections there too.

Time is counted in turns of the supervisor's own loop, not by a clock: after the whole machine was suspended or starved,
no process is blamed for it.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import structlog

from latchkey.cli.forking import Process
from latchkey.standing import News

log = structlog.get_logger()

SERVICE = "latchkey.cli.child"
EVERY_SECONDS = 0.2
# Far longer than an event loop is ever busy with one thing.
HANGS_AFTER_SECONDS = 30.0
# Long: on a busy machine a start can take a minute instead of a second.
START_PATIENCE = 15 * 60.0
# A process that ran this long was healthy: its crash count starts again.
HEALTHY_AFTER = 30.0
# So many crashes in a row are reported by /readyz.
STORM = 3
# Looks at which connections were waiting, one after another, until others accept them.
_CROWDED = 2
# How long others help at least, so that they do not come and go.
_HELP_SECONDS = 5.0
# More would all wake up for each connection.
_HELPERS = 2
# A process that said nothing for so long is no helper.
_SILENT_SECONDS = 3.0


@dataclass(slots=True)
class Child:
    name: str
    roles: tuple[str, ...]
    listening: socket.socket | None = None
    # More sockets for it. Its settings, or later news, say by number which is which.
    also: tuple[socket.socket, ...] = ()
    # The program, and its settings if they differ from the service's.
    module: str = SERVICE
    settings: dict[str, object] | None = field(default=None, repr=False)
    # Its code is loaded only when it gets its settings: the others need the CPU first.
    later: bool = False
    # It gets its settings when everything else is up. Until then others accept connections for it.
    reserve: bool = False
    process: Process | None = None
    line: socket.socket | None = None
    ready: bool = False
    crashes: int = 0
    began: float = 0.0
    # Turns since it said something, and since then with connections waiting at its socket.
    silent: int = 0
    crowded: int = 0
    # Turns for which others still help.
    helped: int = 0
    # What it was told last.
    news: News = field(default_factory=News)

    @property
    def answers(self) -> bool:
        """Whether it is one of several that can accept connections for each other."""
        return self.module == SERVICE and self.listening is not None

    def heard(self) -> None:
        self.silent = 0

    def starts(self) -> None:
        """A new process is being started for it."""
        self.ready, self.silent, self.crowded, self.news = False, 0, 0, News()
        self.began = time.monotonic()


class Tending:
    """Called by the supervisor: `turn` every now and then, and `tell` when something happened."""

    def __init__(self, children: Sequence[Child], hangs_after_seconds: float = HANGS_AFTER_SECONDS) -> None:
        self._children = children
        self._answering = [child for child in children if child.answers]
        self._hangs_after = hangs_after_seconds / EVERY_SECONDS
        # The descriptor is replaced with another one when helping ends, which only Linux is known to allow.
        self._may_help = len(self._answering) > 1 and sys.platform == "linux"

    def turn(self) -> None:
        for child in self._children:
            self._check(child)
        if self._may_help:
            self._look_for_crowds()
        self.tell()

    def tell(self) -> None:
        """Tell every process that answers requests what has changed for it."""
        helping = self._helpers() if self._may_help else {}
        restarting = tuple(child.name for child in self._children if child.crashes >= STORM)
        for child in self._answering:
            news = News(tuple(helping.get(child.name, ())), restarting)
            if child.ready and news != child.news and child.line is not None:
                try:
                    child.line.send(msgspec.json.encode(news) + b"\n")
                except OSError:
                    # It has ended, or it hangs and its buffer is full. The next turn tries again.
                    continue
                child.news = news

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

    def _look_for_crowds(self) -> None:
        looking = select.poll()
        for child in self._answering:
            assert child.listening is not None
            looking.register(child.listening, select.POLLIN)
        waiting = {number for number, _ in looking.poll(0)}
        for child in self._answering:
            assert child.listening is not None
            child.crowded = child.crowded + 1 if child.listening.fileno() in waiting else 0
            child.helped = max(0, child.helped - 1)
            if child.crowded >= _CROWDED:
                child.helped = round(_HELP_SECONDS / EVERY_SECONDS)

    def _helpers(self) -> dict[str, list[int]]:
        """The sockets at which each process accepts connections for others."""
        found: dict[str, list[int]] = {}
        for place, child in enumerate(self._answering):
            # At the first start nobody knows our address yet; connections that wait all the same bring help.
            absent = not child.ready and (child.crashes > 0 or child.reserve)
            if not absent and not child.helped:
                continue
            assert child.listening is not None
            for helper in self._neighbours(place):
                found.setdefault(helper.name, []).append(child.listening.fileno())
        return found

    def _neighbours(self, place: int) -> Iterator[Child]:
        others = [*self._answering[place + 1 :], *self._answering[:place]]
        able = [one for one in others if one.ready and one.silent * EVERY_SECONDS < _SILENT_SECONDS]
        yield from able[:_HELPERS]
