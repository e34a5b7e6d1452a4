"""The files the embedded PostgreSQL reads: its settings, who may connect, and where its socket is."""

import contextlib
import fcntl
import hashlib
import os
import pwd
import re
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from latchkey.database.embedded.system_user import SystemUser
from latchkey.database.errors import EmbeddedServerError

SOCKET_NAME = ".s.PGSQL.5432"
# sizeof(sockaddr_un.sun_path) less the closing NUL: 107 on Linux, 103 on macOS.
SOCKET_LIMIT = 103 if os.uname().sysname == "Darwin" else 107

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "max_connections": "100",
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "work_mem": "8MB",
    "maintenance_work_mem": "128MB",
    "random_page_cost": "1.1",
    "jit": "off",
    # Committed data is on disk.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "wal_compression": "on",
    "wal_buffers": "16MB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    # A queue and a rate limit rewrite the same rows all day: vacuum early, often and without long pauses.
    "autovacuum_naptime": "10s",
    "autovacuum_vacuum_scale_factor": "0.02",
    "autovacuum_vacuum_insert_scale_factor": "0.05",
    "autovacuum_analyze_scale_factor": "0.02",
    "autovacuum_vacuum_cost_limit": "2000",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %a ",
    "log_checkpoints": "off",
    # Statements and their values may hold personal data; the log must not.
    "log_min_error_statement": "panic",
    # Without details: "Key (app_user_id)=(…) already exists".
    "log_error_verbosity": "terse",
    "log_parameter_max_length_on_error": "0",
}


def configuration(sockets: Path, overrides: Mapping[str, str]) -> str:
    settings = {**SETTINGS, "unix_socket_directories": str(sockets), "unix_socket_permissions": "0700", **overrides}
    lines = [f"{name} = '{value}'" for name, value in settings.items()]
    return "# Written by Latchkey at every start. Use `alter system` for what should stay.\n" + "\n".join(lines) + "\n"


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
