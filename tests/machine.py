"""Programs that a test needs and a bare machine may lack: installed where that is allowed, named clearly where not."""

from __future__ import annotations

import os
import shutil
import subprocess


def ensure(program: str, package: str | None = None) -> str:
    """The path of a program, installed from the system's packages if it is missing and we may."""
    found = shutil.which(program)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        for words in (["update"], ["install", "-y", "--no-install-recommends", package or program]):
            subprocess.run(["apt-get", "-qq", *words], capture_output=True, timeout=600)
        found = shutil.which(program)
    assert found is not None, f"This test needs `{program}`, and it is not on this machine. Install it and run again."
    return found
