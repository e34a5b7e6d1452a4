"""One owner per data folder, for the lifetime of the owner's process.

The lock is a `flock`: the kernel releases it with the process, so a killed owner leaves no stale lock. The content of
the file is only used for the error message.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from latchkey.storage.errors import FolderInUseError


class FolderLock:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "lock"
        self._file: int | None = None

    def take(self) -> None:
        # Close-on-exec, like every descriptor Python opens: a child that outlives this process must not keep the lock.
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(file, 32).decode(errors="replace").strip()
            os.close(file)
            known = f" (process {owner})" if owner.isdigit() else ""
            raise FolderInUseError(
                f"{self.path.parent} is in use by another Latchkey{known}. "
                "Stop that one first, or choose another folder with --data."
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None
