"""Programs that tests need and a bare machine may lack: installed where that is possible, never without saying so."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

# Set to 1, it forbids tests to install anything.
INSTALL_NOTHING = "LATCHKEY_TESTS_INSTALL_NOTHING"

_config: pytest.Config | None = None


def remember(config: pytest.Config) -> None:
    """Whose capture of the output to lift for an announcement."""
    global _config
    _config = config


def ensure(program: str, package: str | None = None) -> str:
    """The path of a program, installed from the system's packages if it is missing and we may."""
    package = package or program
    found = shutil.which(program)
    if found is None and (obstacle := obstacle_to_installing()) is None:
        found = _install(program, package)
        obstacle = f"`apt-get install {package}` did not help"
    assert found is not None, (
        f"This test needs `{program}`, which is not on this machine, and tests cannot install it: {obstacle}. "
        f"Install it (on Debian: `apt-get install {package}`) and run again."
    )
    return found


def wanted(program: str, package: str | None = None) -> str | None:
    """As `ensure`, for a program that tests can do without: None where it cannot be had."""
    found = shutil.which(program)
    return found or (None if obstacle_to_installing() else _install(program, package or program))


def obstacle_to_installing() -> str | None:
    if os.environ.get(INSTALL_NOTHING) == "1":
        return f"{INSTALL_NOTHING}=1 forbids it"
    if os.geteuid() != 0:
        return "that needs root"
    return None if shutil.which("apt-get") else "there is no apt-get"


def _install(program: str, package: str) -> str | None:
    # One test process installs, the others wait for it and try nothing of their own.
    with (Path(tempfile.gettempdir()) / "latchkey-tests-install.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return shutil.which(program)
        announce(
            f"The tests need `{program}`, which is not on this machine. Installing it now: apt-get install {package}. "
            f"({INSTALL_NOTHING}=1 forbids that.)"
        )
        install = ("install", "-y", "--no-install-recommends", package)
        for words in (install, ("update",), install):
            # Without a network it gives up soon.
            command = ["apt-get", "-qq", "-o", "Acquire::http::Timeout=20", *words]
            done = subprocess.run(command, capture_output=True, timeout=600)
            if done.returncode == 0 and words is install:
                break
        return shutil.which(program)


def announce(words: str) -> None:
    """Says it on the terminal at once, although pytest keeps the output of tests that pass to itself."""
    with _uncaptured():
        sys.stderr.write(f"\n{words}\n")
        sys.stderr.flush()


def _uncaptured() -> AbstractContextManager[None]:
    manager = _config.pluginmanager.getplugin("capturemanager") if _config else None
    lifted: AbstractContextManager[None] = manager.global_and_fixture_disabled() if manager else nullcontext()
    return lifted
