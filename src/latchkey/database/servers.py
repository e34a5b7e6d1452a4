"""What the hosts of the database's address say of themselves, and which of them is the primary.

A promotion begins a new timeline, with a higher number. So of two servers that take changes, the one with the lower
timeline is an old primary that has come back: it is never used, even if it is the only one that answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import asyncpg
from msgspec import Struct

from latchkey.database.errors import NoPrimaryError
from latchkey.database.sql import query
from latchkey.database_address import Host
from latchkey.domain.instants import Ms


@dataclass(frozen=True, slots=True)
class Server:
    host: Host
    # The cluster's identifier: all copies of one database have the same. Empty where a service hides it.
    system: str
    # 0 where a service hides it.
    timeline: int
    is_standby: bool = False
    takes_changes: bool = True
    # Whether a commit is confirmed only when a standby has it.
    waits_for_standby: bool = False
    # When it said so, by its own clock.
    at: Ms = field(default=0, compare=False)

    def is_other(self, than: Server) -> bool:
        return (self.system, self.timeline) != (than.system, than.timeline)


class Silent(Struct, frozen=True):
    """A host that cannot be used."""

    host: Host
    reason: str
    # Neither an answer nor a refusal came: the machine is gone or frozen, or the network is cut.
    hangs: bool = False


class SeenCluster(NamedTuple):
    """The cluster that this process uses, and the highest timeline that any of its servers has told of."""

    system: str = ""
    timeline: int = 0

    def with_all(self, servers: Sequence[Server]) -> SeenCluster:
        own = [server.timeline for server in servers if server.system == self.system]
        return self._replace(timeline=max((self.timeline, *own)))

    def refuses(self, server: Server) -> str | None:
        """Why this server must not be used, though it takes changes."""
        if self.system and server.system and server.system != self.system:
            return "belongs to another cluster; if that is intended, restart Latchkey"
        if server.timeline and server.timeline < self.timeline:
            return f"is an old primary (on timeline {server.timeline}, while {self.timeline} has been seen)"
        return None


async def identify(connection: Any, host: Host) -> Server:
    try:
        row = await connection.fetchrow(query("server_identity"))
    except (asyncpg.InsufficientPrivilegeError, asyncpg.UndefinedFunctionError, asyncpg.FeatureNotSupportedError):
        row = await connection.fetchrow(query("server_role"))
    takes_changes = not (row["standby"] or row["read_only"])
    return Server(host, row["system"], row["timeline"], row["standby"], takes_changes, row["waits"], row["now"])


def choose(answers: Sequence[Server | Silent], seen: SeenCluster) -> tuple[Server, SeenCluster]:
    """The primary, and what has been seen now. NoPrimaryError says of each host why it is not the primary."""
    servers = [answer for answer in answers if isinstance(answer, Server)]
    writable = [server for server in servers if server.takes_changes]
    if not seen.system:
        if len({server.system for server in writable}) > 1:
            raise NoPrimaryError(f"{' and '.join(server.host.name for server in writable)} are different clusters")
        seen = seen._replace(system=next((server.system for server in writable), ""))
    seen = seen.with_all(servers)
    fit = [server for server in writable if seen.refuses(server) is None]
    if not fit:
        raise NoPrimaryError("; ".join(f"{answer.host.name} {_unfit(answer, seen)}" for answer in answers))
    return max(fit, key=lambda one: one.timeline), seen


def _unfit(one: Server | Silent, seen: SeenCluster) -> str:
    if isinstance(one, Silent):
        return one.reason
    if one.is_standby:
        return "is a standby"
    return seen.refuses(one) or "takes no changes"


# Kept for the superuser, and (PostgreSQL 16 and newer) for roles that may use reserved connections.
_RESERVED = ("superuser_reserved_connections", "reserved_connections")


async def connection_slots(connection: Any) -> int:
    """Those that an ordinary role can get. Other programs that use the same server take from them too."""
    most = int(await connection.fetchval("show max_connections"))
    reserved = [await connection.fetchval("select current_setting($1, true)", name) for name in _RESERVED]
    return most - sum(int(one or 0) for one in reserved)


_SESSION = "select pg_backend_pid()"
# A prepared statement is in another session than its connection thinks.
MIXED_UP = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
IN_TRANSACTION_MODE = (
    "a pooler in transaction mode is in between, which loses notifications, prepared statements and the settings of "
    "sessions; use its session mode, or connect to PostgreSQL itself (docs/failover.md)"
)


async def shares_sessions(connection: Any, other: Any) -> bool:
    """Whether a session of PostgreSQL goes from one of two connections to the other."""
    try:
        own = await connection.fetchval(_SESSION)
        async with other.transaction():
            given_away: bool = own == await other.fetchval(_SESSION)
            return given_away or bool(own != await connection.fetchval(_SESSION))
    except MIXED_UP:
        return True
