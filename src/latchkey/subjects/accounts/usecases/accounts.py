"""Accounts and their passwords, of which only Argon2id hashes are stored. Known devices: browsers that have signed in
before, proved by a cookie."""

import asyncio
import secrets
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from msgspec import Struct

from latchkey.database.pool import Connection, Database, Executor
from latchkey.database.sealing import Sealer, UnsealableError
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.naming import checked_name
from latchkey.domain.refusal import Conflict, Invalid, found
from latchkey.subjects.accounts import storage
from latchkey.subjects.accounts.rules import INVITATION_LASTS, Account, checked_email, checked_password
from latchkey.subjects.api_keys.usecases import hash_of

# 19 MiB and two rounds: 32 ms of one core. The library's default takes 230 ms on four cores, which would delay reads.
_hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
# Links to choose a password that one account may have at a time.
MOST_LINKS = 5
# One at a time: hashing is expensive on purpose, and many sign-ins at once must not starve reads.
_turn = asyncio.Semaphore(1)


async def create_account(
    database: Database, email: str, now: Ms, *, name: str = "", password: str | None = None
) -> Account:
    email = checked_email(email)
    name = checked_name(name) if name.strip() else ""
    hashed = await hash_password(password) if password is not None else None
    account = await storage.create_account(database, f"acc_{secrets.token_hex(8)}", email, name, hashed, now)
    if account is None:
        raise Conflict(f"There is already an account {email}.", param="email")
    return account


async def find_account(database: Database, email: str) -> Account | None:
    return await storage.find_account(database, email=checked_email(email))


# What needs no more than one statement. The address is as it is stored.
known_account, count_accounts = storage.find_account, storage.count_accounts


async def load_account(database: Executor, account_id: str) -> Account:
    return found(await storage.find_account(database, id=account_id), "There is no such account.", "account_id")


async def invite(database: Database, account_id: str, now: Ms) -> str:
    """A token with which its holder can choose this account's password, once. Earlier tokens stop working."""
    async with database.transaction() as connection:
        await storage.lock_account(connection, account_id, None)
        return await add_invitation(connection, account_id, now)


async def add_invitation(connection: Connection, account_id: str, now: Ms, shown_to: str | None = None) -> str:
    """The same, of an account that is locked. `shown_to` is another account that is shown the link."""
    token, ends = secrets.token_urlsafe(32), now + INVITATION_LASTS
    await storage.forget_tokens(connection, account_id, now, "password")
    await storage.add_token(connection, hash_of(token), account_id, "password", now, ends, shown_to=shown_to)
    return token


async def add_link(database: Database, account_id: str, now: Ms, lasts: Ms) -> str:
    """Like `invite`, but some earlier links stay: whoever asks for a mail in somebody's name must not end the link that
    they have."""
    token = secrets.token_urlsafe(32)
    await storage.add_token(database, hash_of(token), account_id, "password", now, now + lasts, MOST_LINKS)
    return token


async def invited(database: Database, token: str, now: Ms) -> Account | None:
    return await storage.account_of_token(database, hash_of(token), "password", now)


async def accept_invitation(database: Database, token: str, password: str, now: Ms) -> Account:
    hashed = await hash_password(password)
    async with database.transaction() as connection:
        await storage.lock_account(connection, None, hash_of(token))
        used = await storage.take_token(connection, hash_of(token), "password", now)
        if used is None:
            raise Invalid("This link was used already, or is too old. Ask for a new one.")
        await storage.choose_password(connection, used.account_id, hashed, used.shown_to)
        await storage.forget_tokens(connection, used.account_id, now)
        await storage.end_sessions_of(connection, used.account_id)
    return await load_account(database, used.account_id)


async def set_password(database: Database, account_id: str, password: str, now: Ms, *, keep: bytes = b"") -> None:
    """A new password ends every session but the one with the hash `keep`, and every invitation."""
    hashed = await hash_password(password)
    async with database.transaction() as connection:
        await storage.lock_account(connection, account_id, None)
        changed = await storage.set_password(connection, account_id, hashed, keep)
        found(changed, "There is no such account.", "account_id")
        await storage.forget_tokens(connection, account_id, now)
        await storage.end_sessions_of(connection, account_id, keep=keep)


async def hash_password(password: str) -> str:
    checked_password(password)
    async with _turn:
        return await asyncio.to_thread(_hasher.hash, password)


async def matches(password: str, hashed: str | None) -> bool:
    """Takes the same time if there is no such account (`hashed` is None), so that timing does not reveal accounts."""
    async with _turn:
        try:
            return await asyncio.to_thread(_hasher.verify, hashed or _nobody(), password) and hashed is not None
        except (VerificationError, InvalidHashError):
            return False


async def has_password(database: Database, email: str, password: str) -> bool:
    known = await storage.credentials(database, email)
    return known is not None and await matches(password, known.password_hash)


@cache
def _nobody() -> str:
    return _hasher.hash(secrets.token_hex(16))


KNOWN_FOR: Ms = 180 * DAY
# A browser is rarely shared by more people.
MOST_ACCOUNTS = 5
_DEVICE = "known device"


class KnownDevice(Struct, frozen=True):
    """What the cookie of a browser holds."""

    id: str
    # Accounts and when they signed in, the newest first.
    accounts: dict[str, Ms]


class Devices:
    def __init__(self, secret_key: bytes) -> None:
        self._sealer = Sealer(secret_key)

    def known(self, cookie: str, account_id: str, now: Ms) -> str | None:
        """The device's id, if this account signed in with it and not too long ago."""
        device = self._read(cookie)
        since = device.accounts.get(account_id)
        return device.id if since is not None and since <= now < since + KNOWN_FOR else None

    def remember(self, cookie: str, account_id: str, now: Ms) -> str:
        """The cookie after this account signed in. Other accounts in it stay known."""
        device = self._read(cookie)
        others = [(id, since) for id, since in device.accounts.items() if id != account_id]
        accounts = dict([(account_id, now), *others][:MOST_ACCOUNTS])
        return self._sealer.token(KnownDevice(device.id, accounts), _DEVICE)

    def _read(self, cookie: str) -> KnownDevice:
        try:
            return self._sealer.opened(cookie, KnownDevice, _DEVICE)
        except UnsealableError:
            return KnownDevice(secrets.token_hex(16), {})
