"""The three processes of a run, which can be killed: the API, the delivery worker and the consumer.

They are forked from a server that has loaded the code, so a killed process is replaced quickly and many can be killed.
The parent owns the listening sockets, so a new process answers at the same address.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import uvloop
from msgspec import json

from latchkey import logs
from latchkey.cli.main import main as command_line
from latchkey.consumer.consumer_settings import Settings
from latchkey.process.service import run_process
from latchkey.process.up.consumer_server import serve
from latchkey.settings import load
from tests.forks import FORKS, become
from tests.patience import PATIENCE


class Killable:
    """One of the processes, which can be killed and started anew."""

    def __init__(
        self, role: str, folder: Path, environment: Mapping[str, str], listening: socket.socket | None
    ) -> None:
        self.role = role
        self.kills = 0
        self._log = folder / f"{role}.log"
        self._environment = environment
        self._listening = listening
        self._process: ForkServerProcess | None = None

    def start(self) -> None:
        ready, told = FORKS.Pipe(duplex=False)
        words = (self.role, dict(self._environment), self._log, self._listening, told)
        self._process = FORKS.Process(target=_run, args=words, daemon=True)
        self._process.start()
        told.close()
        with ready:
            started = ready.poll(PATIENCE)
        assert started, f"the {self.role} did not start: {self._log.read_text()[-2000:]}"

    def kill(self) -> None:
        """kill -9, then start a new one."""
        self.kills += 1
        self._end(signal.SIGKILL)
        self.start()

    def stop(self) -> None:
        if self._process is not None:
            self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        assert self._process is not None
        assert self._process.pid is not None
        os.kill(self._process.pid, number)
        self._process.join(PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()
        self._process = None


def reconcile(folder: Path, environment: Mapping[str, str]) -> Any:
    """Run `latchkey consumer reconcile --json` as an operator would; gives its report."""
    output, log = folder / "reconcile.json", folder / "reconcile.log"
    words = ("consumer", "reconcile", "--json")
    process = FORKS.Process(target=_command, args=(words, dict(environment), output, log), daemon=True)
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0, (process.exitcode, output.read_text()[-2000:], log.read_text()[-2000:])
    process.close()
    return json.decode(output.read_bytes())


def _command(words: tuple[str, ...], environment: dict[str, str], output: Path, log: Path) -> None:
    become(environment, output, log)
    sys.argv = ["latchkey", *words]
    command_line()


def _run(
    role: str, environment: dict[str, str], log: Path, listening: socket.socket | None, ready: Connection[str, str]
) -> None:
    become(environment, log, log)
    logs.configure("warning", "json")
    uvloop.run(_serve(role, listening, ready))


async def _serve(role: str, listening: socket.socket | None, ready: Connection[str, str]) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    if role == "consumer":
        assert listening is not None
        await serve(Settings.from_env(), listening, stop, lambda: ready.send("ready"))
    else:
        await run_process(load(os.environ), [role], listening, stop, lambda: ready.send("ready"))
