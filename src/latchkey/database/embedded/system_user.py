"""PostgreSQL refuses to run as root. When we are root it runs as a separate system user. That user needs execute
permission on every folder above its files: exactly that is granted, nothing more."""

import fcntl
import os
import pwd
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from latchkey.database.errors import EmbeddedServerError

NAME = "pgserver"

# How often to try to create the user while another program changes /etc/passwd, and the seconds between.
ATTEMPTS = 100
PAUSE = 0.1


class SystemUser(Struct, frozen=True):
    name: str
    uid: int
    gid: int

    @property
    def is_other(self) -> bool:
        return self.uid != os.geteuid()

    @property
    def switch(self) -> dict[str, Any]:
        """Arguments for `subprocess` that run a program as this user."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.is_other else {}

    def own(self, path: Path) -> None:
        if self.is_other:
            os.chown(path, self.uid, self.gid)

    def may(self, status: os.stat_result, bit: int) -> bool:
        """Whether this user has `bit` (1 execute, 4 read) on a file with this status."""
        if status.st_uid == self.uid:
            return bool(status.st_mode & (bit << 6))
        if status.st_gid == self.gid:
            return bool(status.st_mode & (bit << 3))
        return bool(status.st_mode & bit)

    def open_way_to(self, path: Path) -> list[Path]:
        """Give this user execute permission on every folder above `path`; returns the folders that were changed."""
        opened: list[Path] = []
        if not self.is_other:
            return opened
        for folder in path.resolve().parents:
            status = folder.stat()
            if not self.may(status, stat.S_IXOTH):
                folder.chmod(stat.S_IMODE(status.st_mode) | stat.S_IXOTH)
                opened.append(folder)
        return opened

    def open_to_read(self, tree: Path) -> None:
        """Give this user read permission on everything in `tree` (an installation made under umask 077)."""
        if not self.is_other:
            return
        for path in (tree, *tree.rglob("*")):
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                continue
            mode = stat.S_IMODE(status.st_mode)
            wanted = mode | stat.S_IROTH
            if stat.S_ISDIR(status.st_mode) or mode & stat.S_IXUSR:
                wanted |= stat.S_IXOTH
            if wanted != mode:
                path.chmod(wanted)


def server_user() -> SystemUser:
    """The user who runs PostgreSQL: the current user, or `pgserver` when we are root."""
    entry = _entry() if os.geteuid() == 0 else _known(os.geteuid())
    if entry is None:
        with _one_at_a_time():
            entry = _entry() or _create()
    return SystemUser(entry.pw_name, entry.pw_uid, entry.pw_gid)


def owner_of(path: Path) -> str | None:
    """The name of a file's owner, or the number of one without a name; None if there is no such file or we may not
    know."""
    try:
        uid = path.stat().st_uid
    except OSError:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user id {uid}"


def _known(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise EmbeddedServerError(
            f"User id {uid} has no name on this machine, and PostgreSQL needs one. "
            "Add it to /etc/passwd, or use a PostgreSQL of your own with `latchkey serve` and LATCHKEY_DATABASE_URL."
        ) from None


def _entry() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        return None


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Several processes may start at once on a new machine. Two `useradd` at the same time may fail, or create the user
    twice, each with an id of its own. So a lock on the folder of /etc/passwd comes first: the file itself is replaced
    by each change, and with it the lock."""
    folder = os.open("/etc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _create() -> pwd.struct_passwd:
    """Tries again for a while: another program, such as a package's installation, may have locked /etc/passwd."""
    command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", NAME]
    reason = "it is not there after `useradd`"
    for _ in range(ATTEMPTS):
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - fixed words, no input
        except OSError as error:
            reason = str(error)
            break
        except subprocess.CalledProcessError as error:
            reason = str(error.stderr).strip() or str(error)
        entry = _entry()
        if entry is not None:
            return entry
        time.sleep(PAUSE)
    raise EmbeddedServerError(
        f"PostgreSQL cannot run as root, and the user `{NAME}` could not be created ({reason}). "
        f"Create it (`{' '.join(command)}`), or run Latchkey as a normal user."
    )
