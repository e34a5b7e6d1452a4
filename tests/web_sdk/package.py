"""The vendor's web SDK, unmodified from npm, in a folder of the user's cache. Nothing of it is in this repository."""

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

HERE = Path(__file__).parent
FILES = ("package.json", "package-lock.json")
# npm's codes for "the registry cannot be reached". Everything else is a failure, a wrong checksum above all.
UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "ERR_SOCKET_TIMEOUT")


def installed() -> Path:
    """The folder with the browser builds. Skips, and says so on the terminal, where npm cannot be had."""
    npm = machine.wanted("npm")
    if npm is None:
        _skip(f"npm is missing, and tests cannot install it: {machine.obstacle_to_installing() or 'apt-get failed'}")
    content = b"".join((HERE / name).read_bytes() for name in FILES)
    folder = _cache() / f"purchases-js-{hashlib.sha256(content).hexdigest()[:16]}"
    builds = folder / "node_modules" / "@revenuecat" / "purchases-js" / "dist"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        # One test process downloads, the others wait for it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not builds.is_dir():
            _download(npm, folder)
    return builds


def _download(npm: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        new = Path(made) / "package"
        new.mkdir()
        for name in FILES:
            shutil.copy(HERE / name, new)
        # `ci` installs exactly what the lock names, and refuses a package whose checksum differs.
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        done = subprocess.run(command, cwd=new, capture_output=True, text=True, timeout=600)
        said = done.stdout + done.stderr
        if done.returncode != 0 and any(code in said for code in UNREACHABLE):
            _skip("npm cannot reach its registry")
        assert done.returncode == 0, said
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "latchkey-tests"


def _skip(why: str) -> NoReturn:
    words = f"NOT TESTED: the vendor's web SDK (tests/web_sdk), because {why}."
    machine.announce(words)
    pytest.skip(words)
