"""A log file that programs append to for as long as they run. It is begun anew once it is large."""

import contextlib
import os
import shutil
from pathlib import Path

LIMIT = 16 * 1024 * 1024


def open_log(path: Path) -> int:
    shorten(path)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def shorten(path: Path) -> None:
    """A large log goes on empty, and what it had is beside it. It stays the same file, because programs have it open; a
    line that one writes in just this moment may be lost. On a full disk nothing changes."""
    with contextlib.suppress(OSError):
        if path.stat().st_size > LIMIT:
            before = path.with_suffix(".log.1")
            before.unlink(missing_ok=True)
            before.touch(0o600)
            shutil.copyfile(path, before)
            os.truncate(path, 0)
