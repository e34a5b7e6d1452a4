"""A file system of a few tens of megabytes that a test can fill up and make room on again.

It has to be a real one. As root it is mounted (a tmpfs). Anybody else gets the same in a user namespace of their own,
in which the test runs again. Where neither is allowed, name a folder on a small file system in SMALL_DISK.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MEGABYTES = 192
MISSING = (
    "This test needs a small file system that it can fill up. It could not mount a tmpfs ({reason}). Run the tests as "
    f"root, or allow user namespaces, or set SMALL_DISK to an empty folder on a file system of {MEGABYTES} MB."
)
_INSIDE = "SMALL_DISK_NAMESPACE"


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Use up all free space, to the last block."""
        with self._ballast.open("wb", buffering=0) as file:
            for block in (bytes(1024 * 1024), bytes(4096)):
                with contextlib.suppress(OSError):
                    while file.write(block) == len(block):
                        pass

    def make_room(self) -> None:
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    if given := os.environ.get("SMALL_DISK"):
        assert shutil.disk_usage(given).total < 4 * MEGABYTES * 1024**2, f"SMALL_DISK={given} is not small"
        yield SmallDisk(Path(given))
        return
    folder.mkdir()
    mounted = _run("mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "latchkey-test", folder)
    if mounted is not None:
        pytest.fail(MISSING.format(reason=mounted))
    try:
        folder.chmod(0o755)
        yield SmallDisk(folder)
    finally:
        # Lazy, so that files that are still open do not make it fail.
        _run("umount", "--lazy", folder)


def needs_namespace() -> bool:
    return os.geteuid() != 0 and not os.environ.get("SMALL_DISK") and not os.environ.get(_INSIDE)


def run_again_in_namespace(test_file: Path) -> None:
    """Run the tests of this file again in a namespace where mounting is allowed."""
    again = subprocess.run(
        [
            "unshare", "--user", "--map-current-user", "--keep-caps", "--mount",
            sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", test_file,
        ],
        capture_output=True,
        text=True,
        env={**os.environ, _INSIDE: "yes"},
    )  # fmt: skip
    if again.returncode:
        pytest.fail(f"{MISSING.format(reason='see below, if that is what it says')}\n{again.stdout}{again.stderr}")


def _run(*words: str | Path) -> str | None:
    """The error message, or None."""
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except OSError as error:
        return str(error)
    return (done.stderr.strip() or f"status {done.returncode}") if done.returncode else None
