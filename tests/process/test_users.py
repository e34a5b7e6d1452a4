"""`latchkey up` as an ordinary user and as root: who owns what, and what is said where that does not fit."""

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # ships no types
import pytest

from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.database.embedded.system_user import NAME
from latchkey.database.errors import EmbeddedServerError
from tests import machine
from tests.cli.running import LATCHKEY, Up, latchkey
from tests.patience import PATIENCE

pytestmark = pytest.mark.processes

NOBODY = "nobody"
only_root = pytest.mark.usefixtures("root")


@pytest.fixture(scope="module")
def root() -> None:
    if os.geteuid() != 0:
        machine.skip(
            "root user for tests/process/test_users.py", "Only root can become another user: run them as root."
        )


def becoming(name: str) -> list[str] | None:
    """The words that start a program as this user; None if that user cannot run our Python.

    Where Python is in a folder that only root may enter, the user gets one capability: to enter and read folders, but
    not to write to them.
    """
    user = pwd.getpwnam(name)
    plain = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    reading = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", "--bounding-set=-all,+dac_read_search"]
    for words in (plain, [*plain, *reading]):
        # Python that cannot enter its own folder takes the library of another one, if there is one.
        script = "import latchkey.cli, sys; print(sys.base_prefix)"
        tried = subprocess.run([*words, sys.executable, "-c", script], capture_output=True, text=True, cwd="/")
        if tried.stdout.strip() == sys.base_prefix:
            return words
    return None


@pytest.fixture(scope="module")
def as_nobody() -> list[str]:
    found = becoming(NOBODY) if shutil.which("setpriv") else None
    if found is None:
        machine.skip(f"user {NOBODY} who may run {sys.executable}", "Use a Python that every user may run.")
    return found


class UpAs(Up):
    def __init__(self, user: list[str], folder: Path, *words: str) -> None:
        self.program, *rest = user
        bare = ("--workers", "1", "--no-stores", "--no-history")
        super(Up, self).__init__(*rest, LATCHKEY, "up", "--data", folder, *bare, *words)
        self.folder = folder


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A folder of the ordinary user, where everybody may pass."""
    above = Path(tempfile.mkdtemp(prefix="latchkey-users-"))
    above.chmod(0o755)
    made = above / "home"
    made.mkdir()
    shutil.chown(made, NOBODY)
    yield made
    shutil.rmtree(above, ignore_errors=True)


@pytest.fixture(scope="module")
def folder(as_nobody: list[str], home: Path) -> Path:
    """What an `up` of the ordinary user has left. It was ready, and its processes were that user's."""
    data = home / "data"
    with UpAs(as_nobody, data, "--port", "0") as up:
        up.wait_until_ready()
        assert up.get("/readyz")[0] == 200
        users, names = set(), set()
        for process in psutil.Process(up.process.pid).children(recursive=True):
            # PostgreSQL's workers come and go.
            with suppress(psutil.NoSuchProcess):
                users.add(process.username())
                names.add(process.name())
        assert users == {NOBODY}
        assert any("postgres" in name for name in names)
        assert up.terminate() == 0
        assert "Traceback" not in up.output
    return data


@only_root
def test_an_ordinary_users_files_are_that_users_and_closed_to_others(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        assert path.owner() == NOBODY, path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "postgres").stat().st_mode) == 0o700


@only_root
def test_root_does_not_start_in_an_ordinary_users_folder_and_changes_nothing(folder: Path) -> None:
    def looks() -> list[tuple[str, str, int]]:
        return sorted((str(path), path.owner(), path.stat().st_mode) for path in (folder, *folder.rglob("*")))

    before = looks()
    told = latchkey("up", "--data", folder, "--port", "0")
    assert told.returncode == 1
    assert f"{folder / 'postgres'} belongs to {NOBODY}, and PostgreSQL would run as {NAME}" in told.stderr
    assert told.stderr.count("\n") == 1
    assert looks() == before


@only_root
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_an_ordinary_user_in_roots_folder_is_told_whose_it_is(as_nobody: list[str], home: Path, mode: int) -> None:
    made = home.parent / f"of-root-{mode:o}"
    made.mkdir()
    made.chmod(mode)
    (made / "lock").touch(mode=0o600)
    told = subprocess.run(
        [*as_nobody, LATCHKEY, "up", "--data", made, "--port", "0"],
        capture_output=True, text=True, timeout=PATIENCE, cwd="/",
    )  # fmt: skip
    assert told.returncode == 1
    assert f"{made} cannot be used (Permission denied; it belongs to root). Choose another folder" in told.stderr
    assert told.stderr.count("\n") == 1


@only_root
def test_a_place_where_the_user_may_not_make_a_folder_is_said(as_nobody: list[str], home: Path) -> None:
    told = subprocess.run(
        [*as_nobody, LATCHKEY, "up", "--data", home.parent / "mine", "--port", "0"],
        capture_output=True, text=True, timeout=PATIENCE, cwd="/",
    )  # fmt: skip
    assert (told.returncode, told.stderr.count("\n")) == (1, 1)
    assert f"{home.parent / 'mine'} cannot be used (Permission denied)" in told.stderr


@only_root
def test_as_root_the_database_is_another_users_and_the_rest_is_roots(postgres: EmbeddedServer) -> None:
    assert postgres.data.owner() == NAME
    assert stat.S_IMODE(postgres.data.stat().st_mode) == 0o700
    # The way to it is open, but what is in it cannot be listed.
    assert (postgres.folder.owner(), stat.S_IMODE(postgres.folder.stat().st_mode)) == ("root", 0o711)
    assert (postgres.folder / "lock").owner() == "root"
    assert psutil.Process(postgres.pid).username() == NAME


@only_root
def test_a_database_of_a_user_without_a_name_is_refused_by_number(short_folder: Path) -> None:
    server = EmbeddedServer(short_folder / "elses")
    server.data.mkdir(parents=True)
    os.chown(server.data, 54_321, 54_321)
    with pytest.raises(EmbeddedServerError, match="belongs to user id 54321, and PostgreSQL would run as"):
        server.claim()
