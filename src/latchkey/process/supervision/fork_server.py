"""Processes that begin as a copy of this one, with all the code that it has loaded.

Loading the code is nearly all that the start of a process costs. So it is loaded once, and the processes are copies
(forks) of the one that loaded it. A copy has only the thread that made it, so it is made before there is another one:
the supervisor copies itself before its event loop runs. When a process has ended, later, a new one is started in the
usual way (`supervisor.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, NoReturn

from latchkey.settings import PREFIX

_PROC = Path("/proc/self")
# Fields of /proc/self/stat, counted from 0 behind the program's name: where the environment is in memory.
_ENVIRONMENT_FIELDS = (47, 48)
_STOPPING = (signal.SIGINT, signal.SIGTERM)


def may_fork() -> bool:
    """Whether a copy of this process is safe, and can be waited for: Linux, and no other thread, be it Python's or a
    library's."""
    if not hasattr(os, "pidfd_open"):
        return False
    try:
        # Old kernels and some sandboxes do not have it.
        os.close(os.pidfd_open(os.getpid()))
        return len(os.listdir(_PROC / "task")) == 1
    except OSError:
        return False


def forget_settings() -> bool:
    """Removes our settings from the environment, also from the memory where the kernel shows it to others: a copy of
    this process has a copy of that, and secrets must not be in it. False if that is not possible."""
    names = [name for name in os.environ if name.startswith(PREFIX)]
    for name in names:
        del os.environ[name]
    try:
        kept = (_PROC / "environ").read_bytes()
        if PREFIX.encode() not in kept:
            return True
        fields = (_PROC / "stat").read_text().rpartition(")")[2].split()
        start, end = (int(fields[environment_field]) for environment_field in _ENVIRONMENT_FIELDS)
        if end - start != len(kept):
            return False
        clean = b"\0".join(_without_value(entry) for entry in kept.split(b"\0"))
        with (_PROC / "mem").open("r+b", buffering=0) as memory:
            memory.seek(start)
            return memory.write(clean) == len(clean)
    except (OSError, ValueError, IndexError):
        return False


def _without_value(entry: bytes) -> bytes:
    name, _, value = entry.partition(b"=")
    return name + b"=" + b"-" * len(value) if name.startswith(PREFIX.encode()) else entry


def fork(main: Callable[[], None], *, keep: Iterable[socket.socket], output: IO[bytes] | None) -> Forked:
    """A copy of this process that runs `main` and ends. Of the open files it has only these sockets and the output."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = {one.fileno() for one in keep}
    # Until the copy handles them in its own way.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    pid = os.fork()
    if pid == 0:
        _live(main, kept, output.fileno() if output is not None else None, before)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return Forked(pid)


def _live(main: Callable[[], None], kept: set[int], output: int | None, mask: set[int | signal.Signals]) -> NoReturn:
    """The life of a copy. It never returns: what the callers have open belongs to the original."""
    code = 1
    try:
        # The original decides, and sends SIGTERM.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        if output is not None:
            os.dup2(output, 1)
            os.dup2(output, 2)
        # The lock of the data folder and the ends of the other processes' sockets must end with the original.
        for number in map(int, os.listdir(_PROC / "fd")):
            if number > 2 and number not in kept:
                # The list has the descriptor with which it was read, too.
                with contextlib.suppress(OSError):
                    os.close(number)
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        finally:
            os._exit(code)


class Forked:
    """A copy, as seen by the original."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._descriptor = os.pidfd_open(pid)
        self._ended: asyncio.Future[None] | None = None

    def send_signal(self, signal: int, /) -> None:
        # It is not reaped before `wait` ends, so the number cannot belong to another process.
        if self.returncode is None:
            os.kill(self.pid, signal)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        if self._ended is None:
            loop = asyncio.get_running_loop()
            self._ended = loop.create_future()
            loop.add_reader(self._descriptor, self._reap, loop, self._ended)
        await asyncio.shield(self._ended)
        assert self.returncode is not None
        return self.returncode

    def _reap(self, loop: asyncio.AbstractEventLoop, ended: asyncio.Future[None]) -> None:
        loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        ended.set_result(None)


# A process, however it was started.
Process = Forked | asyncio.subprocess.Process
