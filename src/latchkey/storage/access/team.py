"""Memberships: which account has which role in which project, and who may see what concerns the whole deployment."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.domain.team.account import Role
from latchkey.storage.access.accounts import Account, account_of
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_PUT = query("put_member")
_REMOVE = query("remove_member")
_LOCK_OWNERS = query("lock_owners")
_ROLE_OF = query("role_of")
_PROJECTS_OF = query("projects_of_account")
_MEMBERS_OF = query("members_of_project")


@dataclass(frozen=True, slots=True)
class Member:
    account: Account
    role: Role
    since: Ms
    last_seen_at: Ms | None


@dataclass(frozen=True, slots=True)
class Membership:
    """A project that an account belongs to."""

    project_id: str
    name: str
    role: Role


async def members(connection: Connection, project_id: str) -> list[Member]:
    """In the order in which they joined."""
    return [
        Member(account_of(row), Role(row["role"]), row["member_since"], row["last_seen_at"])
        for row in await connection.fetch(_MEMBERS_OF, project_id)
    ]


async def places(connection: Connection, account_id: str) -> list[Membership]:
    """In the order in which the account joined them."""
    rows = await connection.fetch(_PROJECTS_OF, account_id)
    return [Membership(row["id"], row["name"], Role(row["role"])) for row in rows]


async def role_of(connection: Connection, account_id: str, project_id: str) -> Role | None:
    role = await connection.fetchval(_ROLE_OF, account_id, project_id)
    return None if role is None else Role(role)


async def put(connection: Connection, account_id: str, project_id: str, role: Role, now: Ms) -> None:
    """Adds a member, or changes the role of one."""
    await connection.execute(_PUT, account_id, project_id, role, now)


async def remove(connection: Connection, account_id: str, project_id: str) -> bool:
    """False: the account was no member."""
    return await connection.execute(_REMOVE, account_id, project_id) != "DELETE 0"


async def lock_owners(connection: Connection, project_id: str) -> list[str]:
    """Account ids, locked: of two owners who leave at once, the second sees that the first has left."""
    return [row["account_id"] for row in await connection.fetch(_LOCK_OWNERS, project_id)]


_SET_OPERATOR = query("set_operator")
_LIST = query("list_operators")


async def set_operator(connection: Connection, account_id: str, since: Ms | None) -> None:
    """None: it is no operator any more."""
    await connection.execute(_SET_OPERATOR, account_id, since)


async def operator_addresses(connection: Connection) -> list[str]:
    return [row["email"] for row in await connection.fetch(_LIST)]
