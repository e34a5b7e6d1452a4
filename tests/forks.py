"""Child processes, forked from a server that has loaded the code: 20 ms each, instead of a second for the imports."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import uvloop

from tests.patience import PATIENCE

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


class Process:
    """An async function in a process of its own, until SIGTERM sets its event `stop`. The first line that it prints,
    with `announce`, is `announced`; its errors go to the log. It is stopped at the end of the `with` block."""

    def __init__(
        self, run: Callable[..., Awaitable[None]], *arguments: Any, log: Path, environment: Mapping[str, str]
    ) -> None:
        reading, writing = FORKS.Pipe(duplex=False)
        words = (run, arguments, dict(environment), writing, log)
        self._process = FORKS.Process(target=_run, args=words, daemon=True)
        self._process.start()
        writing.close()
        with reading, os.fdopen(os.dup(reading.fileno())) as lines:
            self.announced = lines.readline().strip()
        assert self.announced, f"it did not start: {log.read_text()[-2000:]}"

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def signal(self, number: int) -> None:
        assert self._process.pid is not None
        if self.is_alive():
            os.kill(self._process.pid, number)

    def kill(self) -> None:
        """kill -9"""
        self.signal(signal.SIGKILL)
        self._process.join()

    def stop(self) -> int | None:
        """SIGTERM. Returns the exit code, negative for a signal."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        self._process.join(PATIENCE)
        if self.is_alive():
            self.kill()
        return self._process.exitcode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def announce(line: object = "ready") -> None:
    """In the child: it is ready."""
    with contextlib.suppress(OSError):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def _run(
    run: Callable[..., Awaitable[None]],
    arguments: tuple[Any, ...],
    environment: dict[str, str],
    writing: Connection[str, str],
    log: Path,
) -> None:
    become(environment, writing.fileno(), log)
    # Only its standard output keeps the pipe open.
    writing.close()
    uvloop.run(_until_stopped(run, arguments))


async def _until_stopped(run: Callable[..., Awaitable[None]], arguments: tuple[Any, ...]) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await run(stop, *arguments)
