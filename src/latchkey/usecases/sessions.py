"""Signing in, staying signed in, signing out."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

from latchkey.domain.account import (
    GUESSES_FROM_ADDRESS,
    GUESSES_OF_ACCOUNT,
    GUESSES_WITHIN,
    IDLE_FOR,
    LIVES_FOR,
    LONGEST_PASSWORD,
    Role,
    checked_email,
    is_over,
)
from latchkey.domain.instants import MINUTE, Ms
from latchkey.domain.refusal import Refusal
from latchkey.storage.database import Database
from latchkey.storage.sql import query
from latchkey.usecases.accounts import Account, load_account, matches
from latchkey.usecases.keys import hash_of

PASSWORD_OF = query("password_of")
OPEN_SESSION = query("open_session")
FIND_SESSION = query("find_session")
TOUCH_SESSION = query("touch_session")
END_SESSION = query("end_session")
END_SESSION_OF_ACCOUNT = query("end_session_of_account")
END_SESSIONS = query("end_sessions_of_account")
SESSIONS_OF_ACCOUNT = query("sessions_of_account")
FORGET_OLD = query("forget_old_sessions")
SET_NOTICE = query("set_notice")
CLEAR_NOTICE = query("clear_notice")
COUNT_FAILED = query("count_failed_sign_ins")
NOTE_FAILED = query("note_failed_sign_in")
AWAIT_TURN = query("await_turn_to_guess")
FORGET_ONE = query("forget_one_sign_in")
FORGET_FAILED = query("forget_failed_sign_ins")

# Noting every click would make a write of every read.
TOUCHED_EVERY: Ms = 1 * MINUTE
LONGEST_AGENT = 300


class WrongCredentials(Refusal):
    """Not this address with this password; which of the two is wrong is not said."""


class TooManyGuesses(Refusal):
    """Wrong so often that it must wait."""

    def __init__(self, retry_after: Ms) -> None:
        minutes = -(-retry_after // MINUTE)
        wait = "a minute" if minutes <= 1 else f"{minutes} minutes"
        super().__init__(f"That went wrong too often. Try again in {wait}.")
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Notice:
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Session:
    token: str = field(repr=False)
    account: Account
    # What the account is in the project that was asked for.
    role: Role | None
    notice: Notice | None

    @property
    def id(self) -> str:
        """As the list of sessions names it."""
        return hash_of(self.token).hex()

    @property
    def csrf(self) -> str:
        """What every form of this session carries. Another site can neither read nor compute it."""
        return hmac.new(self.token.encode(), b"latchkey form", hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class Stay:
    """One place where somebody is signed in."""

    id: str
    created_at: Ms
    last_seen_at: Ms
    address: str
    agent: str


async def sign_in(database: Database, email: str, password: str, address: str, now: Ms) -> Account:
    """The account, if this is its password; and not too many wrong ones came before."""
    try:
        email = checked_email(email)
    except Refusal:
        raise WrongCredentials("There is no account with this e-mail address and password.") from None
    who, where = f"account {email}", f"address {address}"
    async with database.transaction() as connection:
        for subject, allowed in ((who, GUESSES_OF_ACCOUNT), (where, GUESSES_FROM_ADDRESS)):
            await connection.execute(AWAIT_TURN, subject)
            failed = await connection.fetch(COUNT_FAILED, subject, now - GUESSES_WITHIN)
            count, first = failed[0]
            if count >= allowed:
                raise TooManyGuesses(max(first + GUESSES_WITHIN - now, 1))
        # Counted before it is checked, so that many guesses at once are not all let through.
        await connection.execute(NOTE_FAILED, [who, where], now)
        row = await connection.fetchrow(PASSWORD_OF, email)
    right = len(password) <= LONGEST_PASSWORD and await matches(password, row["password_hash"] if row else None)
    if row is None or not right:
        raise WrongCredentials("There is no account with this e-mail address and password.")
    async with database.acquire() as connection:
        await connection.execute(FORGET_FAILED, who, now - GUESSES_WITHIN)
        await connection.execute(FORGET_ONE, where, now)
    return await load_account(database, row["id"])


async def open_session(database: Database, account_id: str, address: str, agent: str, now: Ms) -> str:
    """The token of a new session; it exists nowhere else and goes into the cookie."""
    token = secrets.token_urlsafe(32)
    async with database.transaction() as connection:
        await connection.execute(FORGET_OLD, now - LIVES_FOR, now - IDLE_FOR)
        await connection.execute(OPEN_SESSION, hash_of(token), account_id, now, address, _clean(agent))
    return token


async def find_session(database: Database, token: str, project_id: str | None, now: Ms) -> Session | None:
    async with database.acquire() as connection:
        row = await connection.fetchrow(FIND_SESSION, hash_of(token), project_id)
        if row is None:
            return None
        created_at, last_seen_at, *account, role, notice, kind = row
        if is_over(created_at, last_seen_at, now):
            return None
        if now - last_seen_at >= TOUCHED_EVERY:
            await connection.execute(TOUCH_SESSION, hash_of(token), now)
    return Session(token, Account(*account), Role(role) if role else None, Notice(notice, kind) if notice else None)


async def role_in(database: Database, token: str, project_id: str, now: Ms) -> Role | None:
    """What the session's account is in a project, if the session lasts. Looking does not prolong it."""
    async with database.acquire() as connection:
        row = await connection.fetchrow(FIND_SESSION, hash_of(token), project_id)
    if row is None:
        return None
    created_at, last_seen_at, *_, role, _notice, _kind = row
    return None if role is None or is_over(created_at, last_seen_at, now) else Role(role)


async def end_session(database: Database, token: str) -> None:
    async with database.acquire() as connection:
        await connection.execute(END_SESSION, hash_of(token))


async def end_stay(database: Database, account_id: str, stay_id: str) -> None:
    async with database.acquire() as connection:
        await connection.execute(END_SESSION_OF_ACCOUNT, account_id, stay_id)


async def end_other_stays(database: Database, session: Session) -> None:
    async with database.acquire() as connection:
        await connection.execute(END_SESSIONS, session.account.id, hash_of(session.token))


async def stays(database: Database, account_id: str) -> list[Stay]:
    async with database.acquire() as connection:
        return [Stay(*row) for row in await connection.fetch(SESSIONS_OF_ACCOUNT, account_id)]


async def leave_notice(database: Database, session: Session, text: str, kind: str = "done") -> None:
    """Said on the next page this session sees."""
    async with database.acquire() as connection:
        await connection.execute(SET_NOTICE, hash_of(session.token), text, kind)


async def clear_notice(database: Database, session: Session) -> None:
    async with database.acquire() as connection:
        await connection.execute(CLEAR_NOTICE, hash_of(session.token))


def _clean(agent: str) -> str:
    return "".join(letter for letter in agent if letter.isprintable())[:LONGEST_AGENT]
