"""The three processes of a run, which can be killed: the API, the delivery worker and the consumer.

They are forked from a server that has loaded the code, so a killed process is replaced quickly and many can be killed.
The parent owns the listening sockets, so a new process answers at the same address.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import json

from latchkey import logs
from latchkey.cli.main import main as command_line
from latchkey.consumer.consumer_settings import Settings
from latchkey.process.service import run_process
from latchkey.process.up.consumer_server import serve
from latchkey.settings import load
from tests.forks import FORKS, Process, announce, become
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
        self._process: Process | None = None

    def start(self) -> None:
        self._process = Process(_serve, self.role, self._listening, log=self._log, environment=self._environment)

    def kill(self) -> None:
        """kill -9, then start a new one."""
        self.kills += 1
        assert self._process is not None
        self._process.kill()
        self.start()

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()


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


async def _serve(stop: asyncio.Event, role: str, listening: socket.socket | None) -> None:
    logs.configure("warning", "json")
    if role == "consumer":
        assert listening is not None
        await serve(Settings.from_env(), listening, stop, announce)
    else:
        await run_process(load(os.environ), [role], listening, stop, announce)
