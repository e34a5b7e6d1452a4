"""Accounts, their password hashes, and the tokens that work once."""

from typing import Literal

from msgspec import Struct, convert

from latchkey.database.pool import Connection, Executor, Record
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.subjects.accounts.rules import Account, Member, Membership, Role

_FIND = query("find_account")

# A link to choose a password, or a sign-in that waits for the second factor.
Purpose = Literal["password", "second_factor"]


class Credentials(Struct, frozen=True):
    account_id: str
    # None: the account has no password.
    password_hash: str | None


async def create(
    connection: Executor, account_id: str, email: str, name: str, password_hash: str | None, now: Ms
) -> Account | None:
    """None: the address is taken."""
    return _found(await connection.fetchrow(query("create_account"), account_id, email, name, password_hash, None, now))


async def load(connection: Executor, account_id: str) -> Account | None:
    return _found(await connection.fetchrow(_FIND, account_id, None, None))


async def find(connection: Executor, email: str) -> Account | None:
    return _found(await connection.fetchrow(_FIND, None, email, None))


async def find_by_openid(connection: Executor, identity: str) -> Account | None:
    return _found(await connection.fetchrow(_FIND, None, None, identity))


async def any_exists(connection: Executor) -> bool:
    return bool(await connection.fetchval(query("count_accounts")))


async def credentials(connection: Executor, email: str) -> Credentials | None:
    row = await connection.fetchrow(query("password_of"), email)
    return None if row is None else Credentials(row["id"], row["password_hash"])


async def set_password(connection: Connection, account_id: str, password_hash: str) -> bool:
    """False: there is no such account."""
    return await connection.fetchrow(query("set_password"), account_id, password_hash) is not None


async def add_token(
    connection: Executor,
    token_hash: bytes,
    account_id: str,
    purpose: Purpose,
    now: Ms,
    expires_at: Ms,
    most: int = 100,
) -> None:
    """Of earlier tokens of the account for this purpose the newest stay, `most` in all."""
    await connection.execute(query("add_account_token"), token_hash, account_id, purpose, now, expires_at, most)


async def account_of_token(connection: Executor, token_hash: bytes, purpose: Purpose, now: Ms) -> Account | None:
    """None: it was used already, or is too old."""
    return _found(await connection.fetchrow(query("find_account_of_token"), token_hash, purpose, now))


async def take_token(connection: Executor, token_hash: bytes, purpose: Purpose, now: Ms) -> str | None:
    """Uses a token up and returns the account's id. None: it was used already, or is too old."""
    account_id: str | None = await connection.fetchval(query("take_account_token"), token_hash, purpose, now)
    return account_id


async def forget_tokens(connection: Connection, account_id: str, now: Ms, purpose: Purpose | None = None) -> None:
    """Those of this account, of one purpose or all, and all that have expired."""
    await connection.execute(query("forget_account_tokens"), account_id, purpose, now)


def _found(row: Record | None) -> Account | None:
    return None if row is None else account_of(row)


def account_of(row: Record) -> Account:
    """A row may have other columns beside those of the account."""
    return convert(dict(row), Account)


async def link(connection: Executor, account_id: str, identity: str) -> bool:
    """False: the account is linked to another identity."""
    return await connection.fetchval(query("link_openid"), account_id, identity) is not None


async def members(connection: Executor, project_id: str) -> list[Member]:
    """In the order in which they joined."""
    return [
        Member(account_of(row), Role(row["role"]), row["member_since"], row["last_seen_at"])
        for row in await connection.fetch(query("members_of_project"), project_id)
    ]


async def places(connection: Executor, account_id: str) -> list[Membership]:
    """In the order in which the account joined them."""
    rows = await connection.fetch(query("projects_of_account"), account_id)
    return [Membership(row["id"], row["name"], Role(row["role"])) for row in rows]


async def role_of(connection: Connection, account_id: str, project_id: str) -> Role | None:
    role = await connection.fetchval(query("role_of"), account_id, project_id)
    return None if role is None else Role(role)


async def put(connection: Connection, account_id: str, project_id: str, role: Role, now: Ms) -> None:
    """Adds a member, or changes the role of one."""
    await connection.execute(query("put_member"), account_id, project_id, role, now)


async def remove(connection: Connection, account_id: str, project_id: str) -> bool:
    """False: the account was no member."""
    return await connection.execute(query("remove_member"), account_id, project_id) != "DELETE 0"


async def lock_owners(connection: Connection, project_id: str) -> list[str]:
    """Account ids, locked: of two owners who leave at once, the second sees that the first has left."""
    return [row["account_id"] for row in await connection.fetch(query("lock_owners"), project_id)]


async def set_operator(connection: Connection, account_id: str, since: Ms | None) -> None:
    """None: it is no operator any more."""
    await connection.execute(query("set_operator"), account_id, since)


async def operator_addresses(connection: Executor) -> list[str]:
    return [row["email"] for row in await connection.fetch(query("list_operators"))]
