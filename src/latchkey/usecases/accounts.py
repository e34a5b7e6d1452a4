"""Accounts: made, found, and given a password. Only Argon2id hashes are kept."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from latchkey.domain.account import INVITATION_LASTS, checked_email, checked_password
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_name
from latchkey.domain.refusal import Conflict, Invalid, NotFound
from latchkey.storage.database import Database, Record
from latchkey.storage.sql import query
from latchkey.usecases.keys import hash_of

CREATE_ACCOUNT = query("create_account")
LOAD_ACCOUNT = query("load_account")
FIND_ACCOUNT = query("find_account")
PASSWORD_OF = query("password_of")
SET_PASSWORD = query("set_password")
CREATE_INVITATION = query("create_invitation")
FIND_INVITATION = query("find_invitation")
TAKE_INVITATION = query("take_invitation")
FORGET_INVITATIONS = query("forget_invitations")
END_SESSIONS = query("end_sessions_of_account")
COUNT_ACCOUNTS = query("count_accounts")

# 19 MiB and two rounds, 32 ms of one core. The library's default takes 230 ms on four, and reads would wait for them.
_hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
# One at a time: hashing is meant to be expensive, and a crowd that signs in must not starve everybody who reads.
_turn = asyncio.Semaphore(1)


@dataclass(frozen=True, slots=True)
class Account:
    id: str
    email: str
    name: str
    has_password: bool
    openid: str | None
    created_at: Ms

    @property
    def shown(self) -> str:
        return self.name or self.email


async def create_account(
    database: Database, email: str, now: Ms, *, name: str = "", password: str | None = None
) -> Account:
    email = checked_email(email)
    name = checked_name(name) if name.strip() else ""
    hashed = await hash_password(password) if password is not None else None
    async with database.transaction() as connection:
        row = await connection.fetchrow(CREATE_ACCOUNT, _new_id(), email, name, hashed, None, now)
    if row is None:
        raise Conflict(f"There is already an account {email}.", param="email")
    return account_of(row)


async def find_account(database: Database, email: str) -> Account | None:
    async with database.acquire() as connection:
        row = await connection.fetchrow(FIND_ACCOUNT, checked_email(email))
    return None if row is None else account_of(row)


async def load_account(database: Database, account_id: str) -> Account:
    async with database.acquire() as connection:
        row = await connection.fetchrow(LOAD_ACCOUNT, account_id)
    if row is None:
        raise NotFound("There is no such account.", param="account_id")
    return account_of(row)


async def any_account(database: Database) -> bool:
    async with database.acquire() as connection:
        return bool(await connection.fetchval(COUNT_ACCOUNTS))


async def invite(database: Database, account_id: str, now: Ms) -> str:
    """A token with which its holder chooses this account's password, once. Earlier ones stop working."""
    token = secrets.token_urlsafe(32)
    async with database.transaction() as connection:
        await connection.execute(FORGET_INVITATIONS, account_id, now)
        await connection.execute(CREATE_INVITATION, hash_of(token), account_id, now, now + INVITATION_LASTS)
    return token


async def invited(database: Database, token: str, now: Ms) -> Account | None:
    async with database.acquire() as connection:
        row = await connection.fetchrow(FIND_INVITATION, hash_of(token), now)
    return None if row is None else account_of(row)


async def accept_invitation(database: Database, token: str, password: str, now: Ms) -> Account:
    hashed = await hash_password(password)
    async with database.transaction() as connection:
        account_id = await connection.fetchval(TAKE_INVITATION, hash_of(token), now)
        if account_id is None:
            raise Invalid("This link was used already, or is too old. Ask for a new one.")
        await connection.execute(SET_PASSWORD, account_id, hashed)
        await connection.execute(FORGET_INVITATIONS, account_id, now)
        await connection.execute(END_SESSIONS, account_id, b"")
    return await load_account(database, account_id)


async def set_password(database: Database, account_id: str, password: str, now: Ms, *, keep: bytes = b"") -> None:
    """A new password ends every session but the one with this hash, and every link to choose another."""
    hashed = await hash_password(password)
    async with database.transaction() as connection:
        if await connection.fetchrow(SET_PASSWORD, account_id, hashed) is None:
            raise NotFound("There is no such account.", param="account_id")
        await connection.execute(FORGET_INVITATIONS, account_id, now)
        await connection.execute(END_SESSIONS, account_id, keep)


async def hash_password(password: str) -> str:
    checked_password(password)
    async with _turn:
        return await asyncio.to_thread(_hasher.hash, password)


async def matches(password: str, hashed: str | None) -> bool:
    """Also where there is no such account the time of one check passes, so that nobody can tell."""
    async with _turn:
        try:
            return await asyncio.to_thread(_hasher.verify, hashed or _nobody(), password) and hashed is not None
        except (VerificationError, InvalidHashError):
            return False


async def has_password(database: Database, email: str, password: str) -> bool:
    async with database.acquire() as connection:
        row = await connection.fetchrow(PASSWORD_OF, email)
    return row is not None and await matches(password, row["password_hash"])


def account_of(row: Record) -> Account:
    return Account(*row)


def _new_id() -> str:
    return f"acc_{secrets.token_hex(8)}"


_nobodys: list[str] = []


def _nobody() -> str:
    if not _nobodys:
        _nobodys.append(_hasher.hash(secrets.token_hex(16)))
    return _nobodys[0]
