"""The last release's code, taken from the repository's history, and processes that run it."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

from msgspec import json

from tests.cli.running import Running, clean_environment
from tests.not_run import skip
from tests.patience import PATIENCE

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def last_release() -> str:
    lines = (HERE / "last_release").read_text().splitlines()
    [commit] = [line for line in lines if line and not line.startswith("#")]
    return commit


def take(folder: Path) -> Path:
    """The sources of the last release, in this folder. Where the checkout has no history the test is skipped, and says
    so in the last lines of the run."""
    commit = last_release()
    # A checkout that belongs to another user is not refused: only files are read.
    git = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT)]
    try:
        known = subprocess.run([*git, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True, timeout=PATIENCE)
    except FileNotFoundError:
        skip("git for tests/upgrades", "Install git: the last release's code is in the repository's history.")
    if known.returncode:
        skip(
            f"commit {commit[:12]} for tests/upgrades",
            "The last release was not run beside this version. `git fetch --unshallow` gets the history.",
        )
    archive = subprocess.run(
        [*git, "archive", commit, "src", "contract"], capture_output=True, check=True, timeout=PATIENCE
    )
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder / "src"


def first_data(sources: Path, database_url: str) -> Any:
    """What the old code created in an empty database: see `first_data.py`."""
    done = subprocess.run(
        [sys.executable, HERE / "first_data.py", database_url],
        capture_output=True,
        text=True,
        env=clean_environment(PYTHONPATH=str(sources)),
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    made = json.decode(done.stdout)
    assert Path(made["code"]).is_relative_to(sources), "this was not the old code"
    return made


class OldServe(Running):
    """`latchkey serve` of the last release."""

    program = sys.executable

    def __init__(self, sources: Path, **settings: str) -> None:
        super().__init__("-m", "latchkey.cli.entry", "serve", PYTHONPATH=str(sources), **settings)
