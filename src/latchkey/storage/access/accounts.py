"""Accounts, their password hashes, and the tokens that work once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection, Record
from latchkey.storage.sql import query

_CREATE = query("create_account")
_FIND = query("find_account")
_PASSWORD_OF = query("password_of")
_SET_PASSWORD = query("set_password")
_COUNT = query("count_accounts")
_ADD_TOKEN = query("add_account_token")
_FIND_TOKEN = query("find_account_of_token")
_TAKE_TOKEN = query("take_account_token")
_FORGET_TOKENS = query("forget_account_tokens")

# A link to choose a password, or a sign-in that waits for the second factor.
Purpose = Literal["password", "second_factor"]


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
    # Whether it may see what concerns the whole deployment.
    is_operator: bool = False

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
    return _found(await connection.fetchrow(_FIND, account_id, None, None))


async def find(connection: Connection, email: str) -> Account | None:
    return _found(await connection.fetchrow(_FIND, None, email, None))


async def find_by_openid(connection: Connection, identity: str) -> Account | None:
    return _found(await connection.fetchrow(_FIND, None, None, identity))


async def any_exists(connection: Connection) -> bool:
    return bool(await connection.fetchval(_COUNT))


async def credentials(connection: Connection, email: str) -> Credentials | None:
    row = await connection.fetchrow(_PASSWORD_OF, email)
    return None if row is None else Credentials(row["id"], row["password_hash"])


async def set_password(connection: Connection, account_id: str, password_hash: str) -> bool:
    """False: there is no such account."""
    return await connection.fetchrow(_SET_PASSWORD, account_id, password_hash) is not None


async def add_token(
    connection: Connection,
    token_hash: bytes,
    account_id: str,
    purpose: Purpose,
    now: Ms,
    expires_at: Ms,
    most: int = 100,
) -> None:
    """Of earlier tokens of the account for this purpose the newest stay, `most` in all."""
    await connection.execute(_ADD_TOKEN, token_hash, account_id, purpose, now, expires_at, most)


async def account_of_token(connection: Connection, token_hash: bytes, purpose: Purpose, now: Ms) -> Account | None:
    """None: it was used already, or is too old."""
    return _found(await connection.fetchrow(_FIND_TOKEN, token_hash, purpose, now))


async def take_token(connection: Connection, token_hash: bytes, purpose: Purpose, now: Ms) -> str | None:
    """Uses a token up and returns the account's id. None: it was used already, or is too old."""
    account_id: str | None = await connection.fetchval(_TAKE_TOKEN, token_hash, purpose, now)
    return account_id


async def forget_tokens(connection: Connection, account_id: str, now: Ms, purpose: Purpose | None = None) -> None:
    """Those of this account, of one purpose or all, and all that have expired."""
    await connection.execute(_FORGET_TOKENS, account_id, purpose, now)


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
        is_operator=row["is_operator"],
    )
