"""The files of the embedded PostgreSQL: its settings, who may connect, where its socket is, and its log."""

import contextlib
import fcntl
import hashlib
import os
import pwd
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from latchkey.database.embedded.system_user import SystemUser
from latchkey.database.errors import EmbeddedServerError

SOCKET_NAME = ".s.PGSQL.5432"
# sizeof(sockaddr_un.sun_path) less the closing NUL: 107 on Linux, 103 on macOS.
SOCKET_LIMIT = 103 if os.uname().sysname == "Darwin" else 107


def configuration(sockets: Path, overrides: Mapping[str, str]) -> str:
    """Of a setting that is there twice the last line counts."""
    own = {"unix_socket_directories": str(sockets), "unix_socket_permissions": "0700", **overrides}
    usual = (files(__package__) / "postgresql.conf").read_text(encoding="utf-8")
    return usual + "".join(f"{name} = '{value}'\n" for name, value in own.items())


def access_rules(user: SystemUser) -> dict[str, str]:
    """Only the user who started Latchkey may connect, identified by the kernel. There is no password to leak."""
    allowed = dict.fromkeys((user.name, pwd.getpwuid(os.geteuid()).pw_name, "root"))
    return {
        # The second line is for pg_basebackup.
        "pg_hba.conf": "local all all peer map=latchkey\nlocal replication all peer map=latchkey\n",
        "pg_ident.conf": "".join(f'latchkey "{name}" postgres\n' for name in allowed),
    }


def socket_folder(data: Path, user: SystemUser) -> Path:
    """In the data folder if its path is short and simple enough for a socket and a URL; else a private one in /tmp."""
    if _suits(data):
        return data
    name = f"latchkey-{hashlib.sha256(os.fsencode(data)).hexdigest()[:12]}"
    for place in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):  # noqa: S108 - owner and mode are checked
        if place.is_dir() and _suits(place / name):
            return _private(place / name, user)
    raise EmbeddedServerError(
        f"No folder has a path short enough for PostgreSQL's socket; choose a shorter one than {data}."
    )


def _suits(folder: Path) -> bool:
    path = str(folder / SOCKET_NAME)
    return len(os.fsencode(path)) <= SOCKET_LIMIT and re.fullmatch(r"[A-Za-z0-9/._-]+", path) is not None


def _private(folder: Path, user: SystemUser) -> Path:
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid not in {user.uid, os.geteuid()}:
            raise EmbeddedServerError(
                f"{folder} belongs to somebody else. Remove it, or choose another --data."
            ) from None
        folder.chmod(0o700)
    user.own(folder)
    return folder


def socket_url(sockets: Path, database: str) -> str:
    return f"postgresql://postgres@/{quote(database)}?host={quote(str(sockets))}"


def lock(folder: Path) -> int:
    """The descriptor of the folder's lock, for `unlock`. The lock's file names this process."""
    # Close-on-exec, like every descriptor Python opens: a child that outlives this process must not keep the lock.
    file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(file, 32).decode(errors="replace").strip()
        os.close(file)
        known = f" (process {owner})" if owner.isdigit() else ""
        raise EmbeddedServerError(
            f"{folder} is in use by another Latchkey{known}. Stop that one first, or choose another folder with --data."
        ) from None
    os.ftruncate(file, 0)
    os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
    return file


def unlock(file: int) -> None:
    with contextlib.suppress(OSError):
        os.ftruncate(file, 0)
    os.close(file)


# A log file is begun anew once it is larger. Programs append to it for as long as they run.
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
