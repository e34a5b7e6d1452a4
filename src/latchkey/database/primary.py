"""Connections to the primary, and only to it: found among the hosts of the address, watched, and followed when it
moves.

With one host a connection is checked once, when it is made: it must not be to an old primary (`servers.py`). With
several hosts a task watches the primary besides. It asks it every second, and the other hosts every five, for a server
that was promoted behind our back. It decides alone; everybody else connects where it says, or gets its error at once.
When the primary is replaced or lost, all connections to it are cut: their statements fail instead of waiting for an
answer that may never come.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import asyncpg
import structlog

from latchkey.database.errors import NoPrimaryError
from latchkey.database.servers import SeenCluster, Server, Silent, choose, identify
from latchkey.database_address import DatabaseAddress, Host

# A connection on which nothing came for 5 s is tried every 2 s; after 3 tries without an answer it is closed.
_IDLE, _EVERY, _TRIES = 5, 2, 3
# Data that the other side did not confirm for so long closes the connection.
_UNCONFIRMED_MS = 10_000

_OPTIONS = (
    # macOS has another name for the first.
    ("TCP_KEEPIDLE", _IDLE),
    ("TCP_KEEPALIVE", _IDLE),
    ("TCP_KEEPINTVL", _EVERY),
    ("TCP_KEEPCNT", _TRIES),
    ("TCP_USER_TIMEOUT", _UNCONFIRMED_MS),
)


def notice_lost_machines(connection: Any) -> None:
    """For a connection over TCP. The driver has no option for it."""
    transport = getattr(connection, "_transport", None)
    found = transport.get_extra_info("socket") if transport is not None else None
    if found is None or found.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with contextlib.suppress(OSError):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _OPTIONS:
            if hasattr(socket, name):
                found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


log = structlog.get_logger()

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

# The primary is asked every second, and has two to answer. Asked again while there is none.
BEAT_SECONDS = 1.0
BEAT_PATIENCE = 2.0
AGAIN_SECONDS = 0.25
# How often the other hosts are asked whether one of them was promoted.
LOOK_SECONDS = 5.0
# How long a host has to answer, and how long to wait for the others once one could be the primary.
ASK_PATIENCE = 2.0
OTHERS_PATIENCE = 1.0
# How long a new connection may take where there are other hosts.
CONNECT_PATIENCE = 5.0
# A primary that says nothing for so long is lost, even if no other host takes its place. Until then it may be slow.
SILENCE_SECONDS = 10.0

_WATCHING = {"application_name": "latchkey watching", "statement_timeout": "2000"}

# What the driver raises if a server cannot be reached, or does not let us in.
FAILURES = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    ValueError,
)


async def _opened(host: Host, server_settings: Mapping[str, str] = _WATCHING, **options: Any) -> Connection:
    """The settings of the session come after the start: of those at the start, pgbouncer takes hardly more than the
    name."""
    name = server_settings["application_name"]
    connection: Connection = await asyncpg.connect(host.url, server_settings={"application_name": name}, **options)
    try:
        await connection.execute("; ".join(f"set {key} = '{value}'" for key, value in server_settings.items()))
    except BaseException:
        connection.terminate()
        raise
    return connection


# Called with the first connection to a server, before anything else uses it, and when commits begin or cease to wait
# for a standby. `unconfirmed_at`: when they did not on the server before, by its clock; 0 if they did when it was last
# asked.
Follow = Callable[..., Awaitable[None]]


class Primary:
    def __init__(self, address: DatabaseAddress, *, follow: Follow | None = None) -> None:
        self.address = address
        # Why there is no primary now; None while there is one.
        self.trouble: NoPrimaryError | None = None
        self._seen = SeenCluster()
        self._follow_server = follow
        self._following = asyncio.Lock()
        # The server that everything is written to, as it last answered.
        self._followed: Server | None = None
        self._current: Server | None = None
        self._connections: WeakKeyDictionary[Connection, Host] = WeakKeyDictionary()
        # New connections that are not made yet, by their time limits.
        self._connecting: dict[asyncio.Timeout, Host] = {}
        self._watching: asyncio.Task[None] | None = None
        self._beat: Connection | None = None
        self._woken = asyncio.Event()
        self._heard_at = self._looked_at = self._lost_at = time.monotonic()

    async def open(self) -> None:
        """Find the primary, and watch it if the address names several hosts."""
        if self.address.is_cluster and self._watching is None:
            self._follow(await self._find())
            self._watching = asyncio.create_task(self._watch(), name="watch the primary")

    async def close(self) -> None:
        task, self._watching = self._watching, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self._beat is not None:
            self._beat.terminate()

    async def connect(self, **options: Any) -> Connection:
        """A new connection to the primary, which will be cut if that is replaced. The options are the driver's."""
        if self.trouble is not None:
            raise NoPrimaryError(*self.trouble.args)
        if self.address.is_cluster and self._current is None:
            self._follow(await self._find())
        host = self._current.host if self._current is not None else self.address.hosts[0]
        patience = options.pop("timeout", 60.0)
        limit = asyncio.timeout(min(patience, CONNECT_PATIENCE) if self.address.is_cluster else patience)
        try:
            async with limit:
                self._connecting[limit] = host
                return await self._connect_to(host, **options)
        except FAILURES:
            self._woken.set()
            raise
        finally:
            self._connecting.pop(limit, None)

    async def _connect_to(self, host: Host, **options: Any) -> Connection:
        if self.address.wants_primary:
            # Whether it is one is asked below.
            options["target_session_attrs"] = "any"
        connection = await _opened(host, **options)
        try:
            notice_lost_machines(connection)
            server = await identify(connection, host)
            self._admit(server)
            await self._settle(connection, server)
            # What was found meanwhile.
            if self.trouble is not None or (self._current is not None and self._current.host != host):
                raise NoPrimaryError(f"{host.name} is the primary no longer")
        except BaseException:
            connection.terminate()
            raise
        self._connections[connection] = host
        return connection

    async def _settle(self, connection: Connection, server: Server) -> None:
        if self._follow_server is None or server.is_standby or not server.timeline:
            return
        async with self._following:
            before = self._followed
            if before is None or before.is_other(server):
                at = before.at if before is not None and not before.waits_for_standby else 0
                await self._follow_server(connection, unconfirmed_at=at)
            elif before.waits_for_standby != server.waits_for_standby:
                log.warning("commits wait for a standby" if server.waits_for_standby else "commits wait for no standby")
                await self._follow_server(connection, unconfirmed_at=0)
            self._followed = server

    def _admit(self, server: Server) -> None:
        if self.address.wants_primary and not server.takes_changes:
            raise NoPrimaryError(f"{server.host.name} {'is a standby' if server.is_standby else 'takes no changes'}")
        if not self.address.is_cluster and self._seen.system not in ("", server.system):
            # Behind one address another database may be put on purpose.
            log.warning("database is another cluster than before", host=server.host.name)
            self._seen = SeenCluster()
        if (refused := self._seen.refuses(server)) is not None:
            log.error("database server refused", host=server.host.name, reason=refused)
            raise NoPrimaryError(f"{server.host.name} {refused}")
        self._seen = SeenCluster(server.system, max(server.timeline, self._seen.timeline))

    async def survey(self) -> list[Server | Silent]:
        """What each host says, in the order of the address. Hosts that hang are waited for only as long as no other can
        be the primary, and a moment longer."""
        asking = {asyncio.create_task(self._ask(host)): host for host in self.address.hosts}
        until, pending = time.monotonic() + ASK_PATIENCE, set(asking)
        try:
            while pending and (left := until - time.monotonic()) > 0:
                done, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                answers = [one.result() for one in asking if one.done()]
                if done:
                    with contextlib.suppress(NoPrimaryError):
                        choose(answers, self._seen)
                        until = min(until, time.monotonic() + OTHERS_PATIENCE)
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
        return [
            Silent(host, "does not answer", hangs=True) if task in pending else task.result()
            for task, host in asking.items()
        ]

    async def _ask(self, host: Host) -> Server | Silent:
        options: dict[str, Any] = {"target_session_attrs": "any", "server_settings": _WATCHING}
        try:
            connection = await _opened(host, **options)
            try:
                return await identify(connection, host)
            finally:
                connection.terminate()
        except FAILURES as error:
            return Silent(host, f"cannot be used ({str(error).strip() or type(error).__name__})")

    async def _find(self) -> Server:
        answers = await self.survey()
        self._seen = self._seen.with_all([answer for answer in answers if isinstance(answer, Server)])
        found, self._seen = choose(answers, self._seen)
        return found

    # The watching task.

    async def _watch(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS if self.trouble is None else AGAIN_SECONDS):
                    await self._woken.wait()
            self._woken.clear()
            try:
                await self._turn()
            except Exception:
                log.exception("watching the primary failed")

    async def _turn(self) -> None:
        hangs = await self._hangs() if self.trouble is None else False
        if hangs is None:
            self._heard_at = time.monotonic()
            if self._heard_at - self._looked_at < LOOK_SECONDS:
                return
        self._looked_at = time.monotonic()
        try:
            found = await self._find()
        except NoPrimaryError as error:
            if hangs is None and not self._is_outdated():
                # It takes no new connections now, but it is the primary.
                return
            if hangs and time.monotonic() - self._heard_at < SILENCE_SECONDS:
                self._woken.set()
                return
            self._give_up(error)
        else:
            if hangs is not None or self._is_outdated():
                self._follow(found)

    async def _hangs(self) -> bool | None:
        """None: the primary answers. False: it is gone, or is the primary no longer. True: it says nothing at all."""
        assert self._current is not None
        host = self._current.host
        try:
            async with asyncio.timeout(BEAT_PATIENCE):
                if self._beat is None or self._beat.is_closed():
                    self._beat = await self._connect_to(host, server_settings=_WATCHING)
                    self._beat.add_termination_listener(lambda _: self._woken.set())
                server = await identify(self._beat, host)
                self._admit(server)
                await self._settle(self._beat, server)
        except (*FAILURES, NoPrimaryError) as error:
            if self._beat is not None:
                self._beat.terminate()
                self._beat = None
            return isinstance(error, TimeoutError)
        self._current = server
        return None

    def _is_outdated(self) -> bool:
        return self._current is not None and self._seen.refuses(self._current) is not None

    def _follow(self, found: Server) -> None:
        before, self._current = self._current, found
        self._heard_at = time.monotonic()
        if self.trouble is not None or (before is not None and before.host != found.host):
            seconds = round(time.monotonic() - self._lost_at, 1) if self.trouble is not None else None
            log.warning("database primary found", host=found.host.name, timeline=found.timeline, after_seconds=seconds)
        self.trouble = None
        self._cut([host for host in self.address.hosts if host != found.host])

    def _give_up(self, error: NoPrimaryError) -> None:
        if self.trouble is None:
            log.error("database has no primary", reason=str(error))
            self._lost_at = time.monotonic()
        self.trouble = error
        self._cut(self.address.hosts)

    def _cut(self, hosts: Sequence[Host]) -> None:
        """End every connection to these hosts. Whoever waits for an answer of theirs gets an error."""
        for connection in [one for one, host in self._connections.items() if host in hosts]:
            del self._connections[connection]
            connection.terminate()
        for limit in [one for one, host in self._connecting.items() if host in hosts]:
            del self._connecting[limit]
            # RuntimeError: its time is over just now.
            with contextlib.suppress(RuntimeError):
                limit.reschedule(0)
