"""What tests need from the machine. `make machine` installs it before the first test. A test whose program is missing
fails, or is skipped where it can be done without; the end of the run says how many were skipped, and why."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NoReturn

import pytest

from latchkey.runtime.chromium import NAMES as CHROMIUM

HERE = Path(__file__).parent
# Programs, of which one is enough, and their Debian package. The last three are optional.
PROGRAMS = {
    CHROMIUM: "chromium",
    ("curl",): "curl",
    ("openssl",): "openssl",
    ("certutil",): "libnss3-tools",
    ("update-ca-certificates",): "ca-certificates",
    ("chromium-headless-shell",): "chromium-headless-shell",
    ("node",): "nodejs",
    ("npm",): "npm",
}
# Folders with a lock of packages from npm: unmodified, in a folder of the user's cache, not in this repository.
FILES = ("package.json", "package-lock.json")
LOCKS = (HERE / "web_sdk", HERE / "clients", HERE / "docs" / "express")

_MARK = "NOT RUN, needs "


def needed(program: str) -> str:
    """The path of a program."""
    found = shutil.which(program)
    assert found, f"This test needs `{program}`, which is not on this machine: `make machine` installs it or says how."
    return found


def optional(program: str) -> str:
    return shutil.which(program) or skip(program, "`make machine` installs it or says how.")


def node_modules(lock: Path) -> Path:
    """The packages that the lock in this folder names."""
    content = b"".join((lock / name).read_bytes() for name in FILES)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "latchkey-tests"
    return cache / f"{lock.name}-{hashlib.sha256(content).hexdigest()[:16]}" / "node_modules"


def downloaded(lock: Path) -> Path:
    modules = node_modules(lock)
    if not modules.is_dir():
        skip(f"npm packages of {lock.relative_to(HERE.parent)}", "`make machine` downloads them.")
    return modules


def skip(needed: str, how_to_run: str) -> NoReturn:
    pytest.skip(f"{_MARK}{needed}: {how_to_run}")


def summary(reasons: list[str]) -> list[str]:
    """A line for each thing that was missing, from the reasons of all skipped tests."""
    ours = [reason.removeprefix("Skipped: ") for reason in reasons]
    counted = Counter(reason for reason in ours if reason.startswith(_MARK))
    lines = []
    for reason, count in sorted(counted.items()):
        needed, _, how_to_run = reason.removeprefix(_MARK).partition(": ")
        checks = "1 check" if count == 1 else f"{count} checks"
        lines.append(f"{checks} DID NOT RUN, because this machine has no {needed}. {how_to_run}")
    return lines


def _install() -> None:
    missing = [package for names, package in PROGRAMS.items() if not any(map(shutil.which, names))]
    if missing and (os.geteuid() != 0 or not shutil.which("apt-get")):
        _say(f"Some tests need programs that are missing here. On Debian: sudo apt-get install {' '.join(missing)}")
        return
    for package in missing:
        _say(f"The tests need {package}: apt-get install {package}")
        # Without a network it gives up soon.
        apt = ["apt-get", "-qq", "-o", "Acquire::http::Timeout=20"]
        install = [*apt, "install", "-y", "--no-install-recommends", package]
        for command in (install, [*apt, "update"], install):
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if command is install and done.returncode == 0:
                break
        else:
            _say(f"{package} could not be installed: {done.stderr.strip()}")


def _download() -> None:
    for lock in LOCKS:
        folder = node_modules(lock).parent
        if (folder / "node_modules").is_dir() or not shutil.which("npm"):
            continue
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            new = Path(made) / "package"
            new.mkdir()
            for name in FILES:
                shutil.copy(lock / name, new)
            # `ci` installs exactly what the lock names, and refuses a package whose checksum differs.
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            done = subprocess.run(command, cwd=new, capture_output=True, text=True)
            if done.returncode == 0:
                new.rename(folder)
            else:
                _say(f"npm could not download the packages of {lock.relative_to(HERE.parent)}: {done.stderr.strip()}")


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")


if __name__ == "__main__":
    _install()
    _download()
