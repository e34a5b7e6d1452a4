"""Child processes, forked from a server that has loaded the code: 20 ms each, instead of a second for the imports."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.subjects.webhooks.delivery.processes", "tests.convergence.processes"])


def become(environment: Mapping[str, str], output: Path | int, errors: Path) -> None:
    """In the child: take over the variables and files that the parent chose."""
    os.environ.update(environment)
    for target, fd in ((output, 1), (errors, 2)):
        if isinstance(target, int):
            os.dup2(target, fd)
        else:
            with target.open("ab") as file:
                os.dup2(file.fileno(), fd)
    # Ctrl-C is for the parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Forked:
    """A function in a process of its own. What it prints first is `said`; its errors go to the log."""

    def __init__(self, run: Callable[..., None], *arguments: Any, log: Path, environment: Mapping[str, str]) -> None:
        heard, told = FORKS.Pipe(duplex=False)
        words = (run, arguments, dict(environment), told, log)
        self._process = FORKS.Process(target=_run, args=words, daemon=True)
        self._process.start()
        told.close()
        with heard, os.fdopen(os.dup(heard.fileno())) as lines:
            self.said = lines.readline().strip()
        assert self.said, f"it did not start: {log.read_text()[-2000:]}"

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def signal(self, number: int) -> None:
        assert self._process.pid is not None
        if self.is_alive():
            os.kill(self._process.pid, number)

    def wait(self, seconds: float | None = None) -> int | None:
        """The exit code, negative for a signal; None if it still runs after so many seconds."""
        self._process.join(seconds)
        return self._process.exitcode


def _run(
    run: Callable[..., None],
    arguments: tuple[Any, ...],
    environment: dict[str, str],
    told: Connection[str, str],
    log: Path,
) -> None:
    become(environment, told.fileno(), log)
    # Only its standard output keeps the pipe open.
    told.close()
    run(*arguments)
