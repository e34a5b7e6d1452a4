"""Packages from npm, unmodified, in a folder of the user's cache. Nothing of them is in this repository."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

from tests import machine

FILES = ("package.json", "package-lock.json")
# npm's codes for "the registry cannot be reached". Everything else is a failure, a wrong checksum above all.
UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "ERR_SOCKET_TIMEOUT")


def installed(lock: Path, what: str) -> Path:
    """`node_modules` with what the lock in this folder names. Skips, and says so on the terminal, where npm cannot be
    had. `what` is then not tested."""
    npm = machine.wanted("npm")
    if npm is None:
        skip(
            what, f"npm is missing, and tests cannot install it: {machine.obstacle_to_installing() or 'apt-get failed'}"
        )
    content = b"".join((lock / name).read_bytes() for name in FILES)
    folder = _cache() / f"{lock.name}-{hashlib.sha256(content).hexdigest()[:16]}"
    modules = folder / "node_modules"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as held:
        # One test process downloads, the others wait for it.
        fcntl.flock(held, fcntl.LOCK_EX)
        if not modules.is_dir():
            _download(npm, lock, folder, what)
    return modules


def skip(what: str, why: str) -> NoReturn:
    words = f"NOT TESTED: {what}, because {why}."
    machine.announce(words)
    pytest.skip(words)


def _download(npm: str, lock: Path, folder: Path, what: str) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        new = Path(made) / "package"
        new.mkdir()
        for name in FILES:
            shutil.copy(lock / name, new)
        # `ci` installs exactly what the lock names, and refuses a package whose checksum differs.
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        done = subprocess.run(command, cwd=new, capture_output=True, text=True, timeout=600)
        said = done.stdout + done.stderr
        if done.returncode != 0 and any(code in said for code in UNREACHABLE):
            skip(what, "npm cannot reach its registry")
        assert done.returncode == 0, said
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "latchkey-tests"
