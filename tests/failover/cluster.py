"""Two real PostgreSQL servers, a primary and a synchronous standby: to be killed, frozen, promoted and brought back."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

import asyncpg
import psutil  # type: ignore[import-untyped]  # ships no types

from latchkey.database.embedded.data_files import access_rules
from latchkey.database.embedded.postgres import programs
from latchkey.database.embedded.system_user import server_user
from tests.connections import connected
from tests.patience import PATIENCE, until, wait_until

DATABASE = "latchkey"
# A killed process loses nothing that it gave to the kernel, so nothing has to be synced to disk here.
SETTINGS = {
    "fsync": "off",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "wal_keep_size": "256MB",
    "hot_standby": "on",
    "wal_retrieve_retry_interval": "100ms",
    "wal_receiver_status_interval": "1s",
    "autovacuum": "off",
    "io_method": "sync",
    "timezone": "UTC",
}


class Node:
    """One server. It listens on a socket in its own folder, and on a port if it has one."""

    def __init__(self, folder: Path, name: str, port: int = 0) -> None:
        self.name = name
        self.data = folder / name
        self.sockets = folder / f"{name}.sockets"
        self.log = folder / f"{name}.log"
        self.tcp = bool(port)
        self.port = port or 5432
        self._user = server_user()
        self._process: subprocess.Popen[bytes] | None = None
        self._programs = programs()

    @property
    def host(self) -> str:
        """As an address names it."""
        return f"127.0.0.1:{self.port}" if self.tcp else str(self.sockets)

    def url(self, database: str = DATABASE) -> str:
        return f"postgresql://postgres@/{database}?host={self.sockets}&port={self.port}"

    @property
    def conninfo(self) -> str:
        return f"host={self.sockets} port={self.port} user=postgres"

    def create(self) -> None:
        self._make_folders()
        self._run(
            "initdb", "--pgdata", str(self.data), "--username", "postgres", "--auth", "peer", "--encoding", "UTF8",
            "--locale", "C", "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8", "--no-sync",
            "--wal-segsize", "1",
        )  # fmt: skip
        self._run("postgres", "--single", "-D", str(self.data), "postgres", fed=f"create database {DATABASE};\n")
        # As after eight failovers: the next timelines have letters in the names of their files.
        history = self.data / "pg_wal" / "00000009.history"
        history.write_text("8\t0/1000000\tno recovery target specified\n")
        self._user.own(history)
        self._run("pg_resetwal", "--pgdata", str(self.data), "--next-wal-file", "000000090000000000000001")

    def copy(self, other: Node) -> None:
        """Become a standby of the other, from a new base backup."""
        if self.data.exists():
            shutil.rmtree(self.data)
        self._make_folders()
        self._run(
            "pg_basebackup", "--pgdata", str(self.data), "--dbname", other.conninfo,
            "--checkpoint", "fast", "--wal-method", "stream", "--no-sync",
        )  # fmt: skip

    def rewind(self, other: Node) -> None:
        """Become a copy of the other again, after both went different ways."""
        source = f"{other.conninfo} dbname=postgres"
        self._run("pg_rewind", "--target-pgdata", str(self.data), "--source-server", source, "--no-sync")

    def configure(self, *, follows: Node | None = None, synchronous: bool = False) -> None:
        settings = {
            **SETTINGS,
            "unix_socket_directories": str(self.sockets),
            "listen_addresses": "127.0.0.1" if self.tcp else "",
            "port": str(self.port),
            "cluster_name": self.name,
            "synchronous_standby_names": "*" if synchronous else "",
        }
        if follows is not None:
            settings["primary_conninfo"] = f"{follows.conninfo} application_name={self.name}"
        rules = access_rules(self._user)
        rules["pg_hba.conf"] += "local replication all peer map=latchkey\n"
        if self.tcp:
            rules["pg_hba.conf"] += "host all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n"
        lines = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
        for name, text in {"postgresql.conf": lines, "postgresql.auto.conf": "", **rules}.items():
            path = self.data / name
            path.write_text(text)
            path.chmod(0o600)
            self._user.own(path)
        signal_file = self.data / "standby.signal"
        signal_file.unlink(missing_ok=True)
        if follows is not None:
            signal_file.touch()
            self._user.own(signal_file)

    def start(self) -> None:
        for stale in self.sockets.glob(".s.PGSQL*"):
            stale.unlink()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", str(self.data)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.data,
                **self._user.switch,
            )
        wait_until(self._is_up, lambda: self.log.read_text()[-2000:])

    def reload(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    def promote(self) -> None:
        """Returns when it is the primary."""
        self._run("pg_ctl", "promote", "--pgdata", str(self.data), "--wait", "--timeout", str(int(PATIENCE)))

    def kill(self) -> None:
        """All of its processes at once, as if the power failed."""
        self._signal(signal.SIGSTOP)
        _, *others = self._signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()
        self._process = None
        # On a busy machine they end later, and until then the server cannot be started again.
        psutil.wait_procs(others, timeout=PATIENCE)

    def shut_down(self) -> None:
        """Orderly: the standby gets everything first."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        self._process.wait()
        self._process = None

    def freeze(self) -> None:
        """The kernel still takes connections and bytes for it, but nobody answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Quickly; the next start recovers."""
        if self._process is not None:
            with suppress(psutil.NoSuchProcess):
                self.kill()

    def _signal(self, number: int) -> list[psutil.Process]:
        assert self._process is not None
        main = psutil.Process(self._process.pid)
        found = [main, *main.children(recursive=True)]
        for one in found:
            with suppress(psutil.NoSuchProcess):
                one.send_signal(number)
        return found

    def _is_up(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()[-2000:]
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        # The file may be that of the server that was killed here.
        return len(lines) > 7 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready"

    def _make_folders(self) -> None:
        for folder in (self.data, self.sockets):
            folder.mkdir(mode=0o700, exist_ok=True)
            self._user.own(folder)

    def _run(self, name: str, *words: str, fed: str = "") -> None:
        made = subprocess.run(
            [self._programs / name, *words],
            input=fed,
            capture_output=True,
            text=True,
            cwd="/",
            **self._user.switch,
        )
        assert made.returncode == 0, f"{name}: {made.stderr}"


class Pair:
    """A primary with a synchronous standby: what it answered with success is on both."""

    def __init__(self, folder: Path, ports: tuple[int, int] = (0, 0)) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        user = server_user()
        folder.chmod(0o711 if user.is_other else 0o700)
        user.open_way_to(folder / "a")
        self.nodes = Node(folder, "a", ports[0]), Node(folder, "b", ports[1])
        self.primary, self.standby = self.nodes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.stop()

    @property
    def url(self) -> str:
        """Both hosts, always in the same order."""
        hosts = ",".join(node.host for node in self.nodes)
        if self.primary.tcp:
            return f"postgresql://postgres@{hosts}/{DATABASE}?target_session_attrs=read-write"
        return f"postgresql://postgres@/{DATABASE}?host={hosts}"

    def create(self) -> None:
        self.primary.create()
        self.primary.configure()
        self.primary.start()
        self.standby.copy(self.primary)
        self.follow()

    def follow(self) -> None:
        """Start the standby, whose files are a copy of the primary's."""
        self.standby.configure(follows=self.primary)
        self.standby.start()

    def fail_over(self) -> None:
        """The standby becomes the primary. The other is left as it is; it is not a standby until `rejoin`."""
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def rejoin(self, *, rewind: bool = True) -> None:
        """Make the old primary, which is not running, a standby of the new one."""
        if rewind:
            # It was killed: pg_rewind wants a server that recovered and was shut down, and does that by itself.
            self.standby.configure()
            self.standby.rewind(self.primary)
        else:
            self.standby.copy(self.primary)
        self.follow()

    async def synchronise(self) -> None:
        """From now on the primary answers only when the standby has the change."""
        self.primary.configure(synchronous=True)
        self.primary.reload()
        await until(self._is_synchronous, "the standby does not follow")

    async def _is_synchronous(self) -> bool:
        async with connected(asyncpg.connect(self.primary.url("postgres"))) as connection:
            found: bool = await connection.fetchval(
                "select exists (select from pg_stat_replication where sync_state = 'sync' and state = 'streaming')"
                " and current_setting('synchronous_standby_names') = '*'"
            )
            return found


def free_ports() -> tuple[int, int]:
    """Two ports that nobody uses, below those that the system gives to outgoing connections: a server that comes back
    must find its port free. Processes that were started one after the other begin to look at different ones."""
    found: list[int] = []
    port = 20_000 + os.getpid() * 7 % 10_000
    while len(found) < 2:
        port = 20_000 + (port + 1) % 10_000
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            found.append(port)
    return found[0], found[1]
