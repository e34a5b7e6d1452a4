"""Requests that are carried out once, however often they are sent with the same Idempotency-Key.

The reply is stored before it is sent, encrypted, because it may show a new secret. The change and its reply are two
transactions. A process that dies between them leaves a request without a reply: whether it took effect is not known,
so it is never carried out again, and whoever repeats it is told. A request that failed (5xx), or was refused for its
key, is carried out again when it is repeated. `operation_id` stays the same then, for changes that have an id of their
own, such as credits.

Also the log of requests for each API key, and when keys were last used.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from time import perf_counter
from typing import NamedTuple
from uuid import UUID

import structlog
from msgspec import Struct, field

from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.domain.instants import DAY, MINUTE, Ms
from latchkey.engine.admission import Caller
from latchkey.subjects.accounts.rules import client_address, roughly
from latchkey.subjects.request_log import storage
from latchkey.subjects.request_log.storage import Logged

log = structlog.get_logger()

KEPT: Ms = DAY
# No request takes this long. One without a reply after it has lost its process.
LONGEST: Ms = 2 * MINUTE
# About the key, not about what was asked.
_NOT_KEPT = frozenset({401, 403, 429})


class BegunRequest(Struct, frozen=True):
    """The caller carries the request out, and then calls `finish`."""

    id_hash: bytes
    started_at: Ms
    operation_id: str


class Replayed(Struct, frozen=True):
    status: int
    body: bytes


class RefusedRequest(Struct, frozen=True):
    """`reused`: the key was used for another request. `under_way`: ask again. Otherwise the outcome is not known."""

    reused: bool = False
    under_way: bool = False


class Idempotency(Struct, frozen=True):
    database: Database
    sealer: Sealer
    now: Callable[[], Ms]

    async def begin(
        self, project_id: str, key_id: str, key: bytes, request: bytes
    ) -> BegunRequest | Replayed | RefusedRequest:
        """`request` is all that must be the same when the key is sent again."""
        id_hash, fingerprint = sha256(key_id.encode() + b"\0" + key).digest(), sha256(request).digest()
        now, known = self.now(), None
        while known is None:
            async with self.database.acquire() as connection:
                first = await storage.begin(connection, id_hash, project_id, fingerprint, now, now - KEPT)
                if first is not None:
                    return BegunRequest(
                        id_hash, now, str(UUID(bytes=sha256(b"%b %d" % (id_hash, first)).digest()[:16]))
                    )
                # None only if it was pruned just now.
                known = await storage.load(connection, id_hash)
        if known.fingerprint != fingerprint:
            return RefusedRequest(reused=True)
        if known.status is None or known.reply is None:
            return RefusedRequest(under_way=known.status is not None or now - known.started_at < LONGEST)
        return Replayed(known.status, self.sealer.unseal(known.reply, _place(id_hash)).encode())

    async def finish(self, begun: BegunRequest, status: int, body: bytes) -> None:
        kept = status < 500 and status not in _NOT_KEPT
        reply = self.sealer.seal(body.decode(), _place(begun.id_hash)) if kept else None
        await storage.finish(self.database, begun.id_hash, begun.started_at, status, reply)


def _place(id_hash: bytes) -> str:
    return f"idempotent_requests/{id_hash.hex()}"


# Requests of one key that a process keeps in one second: those that succeeded, and those that did not. The key of an
# app is used by all its phones, so few of its requests say as much as all.
SECRET_KEPT, SECRET_FAILED_KEPT = 10, 200
PUBLIC_KEPT, PUBLIC_FAILED_KEPT = 2, 20
# Rows that a process writes in one second, for all keys.
MOST = 2_000
_EVERY_SECONDS = 1.0
# "Last used" is written this often for a key that is used all the time.
_NOTED_EVERY: Ms = 1 * MINUTE
_LONGEST_AGENT = 80
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")
_PRUNED_EVERY_SECONDS = 60.0


class HandledRequest(NamedTuple):
    """What a request leaves behind until it is written."""

    caller: Caller
    # In the time of `perf_counter`.
    ended: float
    method: str
    route: str
    status: int
    seconds: float
    sent: int
    request_id: bytes
    peer: tuple[str, int] | None
    headers: Mapping[bytes, bytes]


class _Window(Struct):
    """The last second of one key."""

    caller: Caller
    # How many more are kept.
    left: int
    failed_left: int
    left_out: int = 0


class RequestLog(Struct):
    database: Database
    now: Callable[[], Ms]
    behind_proxy: bool = False
    # Otherwise only when keys were last used.
    keeps_requests: bool = True
    every: float = _EVERY_SECONDS
    # Requests that could not be written, since the start.
    lost: int = 0
    _windows: dict[str, _Window] = field(default_factory=dict)
    _requests: list[HandledRequest] = field(default_factory=list)
    # When "last used" was last written, by key.
    _noted: dict[str, Ms] = field(default_factory=dict)
    # Uses that are still to be written.
    _uses: dict[str, Ms] = field(default_factory=dict)
    _timer: asyncio.TimerHandle | None = None
    _writing: asyncio.Task[None] | None = None
    _running: bool = False

    def start(self) -> None:
        """Until now requests are not logged."""
        self._running = True

    def takes(self, caller: Caller, status: int) -> bool:
        """Counts a request with this key. Whether to `keep` it."""
        window = self._windows.get(caller.key_id)
        if window is None:
            if not self._running:
                return False
            kept = (PUBLIC_KEPT, PUBLIC_FAILED_KEPT) if caller.is_public else (SECRET_KEPT, SECRET_FAILED_KEPT)
            window = self._windows[caller.key_id] = _Window(caller, *kept)
            if self._timer is None and self._writing is None:
                self._timer = asyncio.get_running_loop().call_later(self.every, self._begin)
        if status < 400:
            if window.left:
                window.left -= 1
                return True
        elif window.failed_left:
            window.failed_left -= 1
            return True
        window.left_out += 1
        return False

    def keep(self, request: HandledRequest) -> None:
        if len(self._requests) >= MOST:
            self._windows[request.caller.key_id].left_out += 1
        else:
            self._requests.append(request)

    async def flush(self) -> None:
        """Writes what there is now."""
        now = self.now()
        windows, self._windows = self._windows, {}
        requests, self._requests = self._requests, []
        for key_id in windows:
            if abs(now - self._noted.get(key_id, 0)) >= _NOTED_EVERY:
                self._uses[key_id] = now
        rows = [*self._rows(requests, now), *_left_out(windows, now)] if self.keeps_requests else []
        uses = dict(self._uses)
        if not rows and not uses:
            return
        try:
            async with self.database.acquire() as connection:
                if uses:
                    await storage.note_uses(connection, uses)
                    self._uses.clear()
                    self._noted.update(uses)
                if rows:
                    await storage.write(connection, rows)
        except Exception as error:
            self.lost += sum(row.left_out or 1 for row in rows)
            log.warning("requests not logged", count=len(rows), error=str(error))

    async def close(self) -> None:
        """Writes the rest, also when keys were last used if that is less than a minute ago."""
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._writing is not None:
            await self._writing
        self._noted.clear()
        await self.flush()

    def _begin(self) -> None:
        self._timer = None
        self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        try:
            await self.flush()
        finally:
            self._writing = None
            if self._running and (self._windows or self._uses):
                self._timer = asyncio.get_running_loop().call_later(self.every, self._begin)

    def _rows(self, requests: list[HandledRequest], now: Ms) -> list[Logged]:
        clock = perf_counter()
        rows = []
        for request in requests:
            forwarded, agent = (request.headers.get(name, b"") for name in (b"x-forwarded-for", b"user-agent"))
            peer = request.peer[0] if request.peer else None
            address = client_address(peer, forwarded.decode("latin-1"), behind_proxy=self.behind_proxy)
            rows.append(
                Logged(
                    request.caller.project_id,
                    request.caller.key_id,
                    now - round((clock - request.ended) * 1000),
                    request.method,
                    request.route,
                    request.status,
                    min(round(request.seconds * 1_000_000), 2**31 - 1),
                    min(request.sent, 2**31 - 1),
                    request.request_id.decode(),
                    roughly(address) if request.caller.is_public else address,
                    _UNPRINTABLE.sub("", agent.decode("latin-1"))[:_LONGEST_AGENT],
                )
            )
        return rows


def _left_out(windows: dict[str, _Window], now: Ms) -> list[Logged]:
    return [
        Logged(one.caller.project_id, key_id, now, left_out=one.left_out)
        for key_id, one in windows.items()
        if one.left_out
    ]


EXAMINED = storage.EXAMINED
entries = storage.page
routes = storage.routes


async def run_pruning(
    database: Database, now: Callable[[], Ms], kept_days: int, kept_rows: int, stop: asyncio.Event
) -> None:
    """Deletes old requests and replies to idempotent ones until `stop` is set. Several processes may do it at once."""
    while not stop.is_set():
        try:
            await storage.prune_request_log(database, now() - kept_days * DAY, kept_rows)
            await storage.prune_idempotent_requests(database, now() - KEPT)
        except Exception as error:
            log.warning("request log not pruned", error=str(error))
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _PRUNED_EVERY_SECONDS)
