"""Accounts, their password hashes, and the invitations with which somebody chooses a password."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection, Record
from latchkey.storage.sql import query

_CREATE = query("create_account")
_LOAD = query("load_account")
_FIND = query("find_account")
_PASSWORD_OF = query("password_of")
_SET_PASSWORD = query("set_password")
_COUNT = query("count_accounts")
_CREATE_INVITATION = query("create_invitation")
_ADD_LINK = query("add_link")
_FIND_INVITATION = query("find_invitation")
_TAKE_INVITATION = query("take_invitation")
_FORGET_INVITATIONS = query("forget_invitations")


@dataclass(frozen=True, slots=True)
class Account:
    id: str
    email: str
    name: str
    has_password: bool
    openid: str | None
    created_at: Ms
    # Whether a code is asked for after the password.
    has_second_factor: bool = False

    @property
    def shown(self) -> str:
        return self.name or self.email


@dataclass(frozen=True, slots=True)
class Credentials:
    account_id: str
    # None: the account has no password.
    password_hash: str | None


async def create(
    connection: Connection, account_id: str, email: str, name: str, password_hash: str | None, now: Ms
) -> Account | None:
    """None: the address is taken."""
    return _found(await connection.fetchrow(_CREATE, account_id, email, name, password_hash, None, now))


async def load(connection: Connection, account_id: str) -> Account | None:
    return _found(await connection.fetchrow(_LOAD, account_id))


async def find(connection: Connection, email: str) -> Account | None:
    return _found(await connection.fetchrow(_FIND, email))


async def any_exists(connection: Connection) -> bool:
    return bool(await connection.fetchval(_COUNT))


async def credentials(connection: Connection, email: str) -> Credentials | None:
    row = await connection.fetchrow(_PASSWORD_OF, email)
    return None if row is None else Credentials(row["id"], row["password_hash"])


async def set_password(connection: Connection, account_id: str, password_hash: str) -> bool:
    """False: there is no such account."""
    return await connection.fetchrow(_SET_PASSWORD, account_id, password_hash) is not None


async def create_invitation(
    connection: Connection, token_hash: bytes, account_id: str, now: Ms, expires_at: Ms
) -> None:
    await connection.execute(_CREATE_INVITATION, token_hash, account_id, now, expires_at)


async def add_link(
    connection: Connection, token_hash: bytes, account_id: str, now: Ms, expires_at: Ms, most: int
) -> None:
    """One more invitation. Of earlier ones the newest stay, `most` in all."""
    await connection.execute(_ADD_LINK, token_hash, account_id, now, expires_at, most)


async def invited(connection: Connection, token_hash: bytes, now: Ms) -> Account | None:
    """The account of an invitation that can still be used."""
    return _found(await connection.fetchrow(_FIND_INVITATION, token_hash, now))


async def take_invitation(connection: Connection, token_hash: bytes, now: Ms) -> str | None:
    """Uses an invitation up and returns the account's id. None: it was used already, or is too old."""
    account_id: str | None = await connection.fetchval(_TAKE_INVITATION, token_hash, now)
    return account_id


async def forget_invitations(connection: Connection, account_id: str, now: Ms) -> None:
    """Those of this account, and all that have expired."""
    await connection.execute(_FORGET_INVITATIONS, account_id, now)


def _found(row: Record | None) -> Account | None:
    return None if row is None else account_of(row)


def account_of(row: Record) -> Account:
    return Account(
        id=row["id"],
        email=row["email"],
        name=row["name"],
        has_password=row["has_password"],
        openid=row["openid"],
        created_at=row["created_at"],
        has_second_factor=row["has_second_factor"],
    )
