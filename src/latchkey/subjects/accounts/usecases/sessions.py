"""Signing in, staying signed in, signing out."""

import hashlib
import hmac
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from latchkey.database.pool import Database
from latchkey.domain.instants import MINUTE, SECOND, Ms
from latchkey.domain.refusal import Refusal
from latchkey.subjects.accounts import rules, storage
from latchkey.subjects.accounts.rules import limits, wait
from latchkey.subjects.accounts.usecases.accounts import load_account, matches
from latchkey.subjects.api_keys.usecases import hash_of

# How often the last use of a session is written. Otherwise every read would cause a write.
TOUCHED_EVERY: Ms = 1 * MINUTE
LONGEST_AGENT = 300
# How somebody signed in.
OPENID = "openid"


class WrongCredentials(Refusal):
    """Wrong e-mail address or password. The message does not say which."""


class TooManyGuesses(Refusal):
    """Too many failed sign-ins; the client must wait."""

    def __init__(self, retry_after: Ms, what: str = "passwords") -> None:
        seconds, minutes = -(-retry_after // SECOND), -(-retry_after // MINUTE)
        wait = f"{minutes} minutes" if minutes > 1 else f"{seconds} seconds" if seconds > 1 else "a second"
        super().__init__(f"Too many wrong {what}. Try again in {wait}.")
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Session:
    token: str = field(repr=False)
    account: rules.Account
    # The account's role in the requested project.
    role: rules.Role | None
    notice: storage.Notice | None
    # Whether an OpenID provider vouched for the account.
    is_openid: bool = False

    @property
    def id(self) -> str:
        """The id in the list of sessions."""
        return hash_of(self.token).hex()

    @property
    def csrf(self) -> str:
        """The token in every form of this session. Another site can neither read nor compute it."""
        return hmac.new(self.token.encode(), b"latchkey form", hashlib.sha256).hexdigest()


def unknown_device(_account_id: str) -> None:
    """The browser has no proof of an earlier sign-in."""
    return


async def sign_in(
    database: Database,
    email: str,
    password: str,
    address: str,
    now: Ms,
    device_of: Callable[[str], str | None] = unknown_device,
) -> rules.Account:
    """The account, if this is its password. After too many failures even the right password has to wait: otherwise the
    response would reveal that it is right. `device_of` returns the known device of an account, if any."""
    try:
        email = rules.checked_email(email)
    except Refusal:
        raise WrongCredentials("There is no account with this e-mail address and password.") from None
    known = await storage.credentials(database, email)
    account_id, device = (known.id, device_of(known.id)) if known else (None, None)
    async with guess(database, limits(email, address, account_id, device), now):
        right = len(password) <= rules.LONGEST_PASSWORD and await matches(
            password, known.password_hash if known else None
        )
        if known is None or not right:
            raise WrongCredentials("There is no account with this e-mail address and password.")
    return await load_account(database, known.id)


@asynccontextmanager
async def guess(
    database: Database, limits: Sequence[rules.Limit], now: Ms, what: str = "passwords"
) -> AsyncIterator[None]:
    """Counts a guess as wrong before it is checked, so that concurrent ones are not all let through. Without an
    exception it was right, and counts no longer."""
    async with database.transaction() as connection:
        for limit in limits:
            failed = await storage.failures(connection, limit.subject, now - limit.pace.counted_for)
            if left := wait(limit.pace, failed.count, failed.last_at, now):
                raise TooManyGuesses(left, what)
        await storage.note_failures(connection, [limit.subject for limit in limits], now)
    yield
    async with database.acquire() as connection:
        cleared = [limit.subject for limit in limits if limit.cleared]
        await storage.forget_failures(connection, cleared)
        await storage.forget_one_failure(connection, [limit.subject for limit in limits if not limit.cleared], now)


async def open_session(
    database: Database,
    account_id: str,
    address: str,
    agent: str,
    now: Ms,
    *,
    through: str | None = None,
    by_password: bool = False,
) -> str:
    """The token of a new session, for the cookie. Only its hash is stored. With `by_password` it opens nothing if the
    password was removed meanwhile."""
    token = secrets.token_urlsafe(32)
    async with database.transaction() as connection:
        shown_agent = "".join(letter for letter in agent if letter.isprintable())[:LONGEST_AGENT]
        session = hash_of(token), account_id, now, address, shown_agent, through, by_password
        await storage.open_session(connection, *session)
        await storage.forget_old_sessions(connection, now - rules.LIVES_FOR, now - rules.IDLE_FOR)
    return token


async def find_session(database: Database, token: str, project_id: str | None, now: Ms) -> Session | None:
    async with database.acquire() as connection:
        found = await storage.find_session(connection, hash_of(token), project_id)
        if found is None or rules.is_over(found.opened_at, found.last_seen_at, now):
            return None
        if now - found.last_seen_at >= TOUCHED_EVERY:
            await storage.touch_session(connection, hash_of(token), now)
    return Session(token, found.account, found.role, found.notice, found.through == OPENID)


async def role_in(database: Database, token: str, project_id: str, now: Ms) -> rules.Role | None:
    """The role of the session's account in a project, if the session has not ended. Does not extend the session."""
    found = await storage.find_session(database, hash_of(token), project_id)
    return None if found is None or rules.is_over(found.opened_at, found.last_seen_at, now) else found.role


async def end_session(database: Database, token: str) -> None:
    await storage.end_session(database, hash_of(token))


async def end_stay(database: Database, account_id: str, stay_id: str) -> None:
    with suppress(ValueError):
        token_hash = bytes.fromhex(stay_id)
        await storage.end_session(database, token_hash, account_id)


async def end_other_stays(database: Database, session: Session) -> None:
    await storage.end_sessions_of(database, session.account.id, keep=hash_of(session.token))


async def leave_notice(database: Database, session: Session, text: str | None, kind: str = "done") -> None:
    """Shown on the next page of this session. None: it was shown."""
    notice = storage.Notice(text, kind) if text is not None else None
    await storage.set_notice(database, hash_of(session.token), notice)


# What needs no more than one statement; the last three are for others who limit guesses or mails.
stays, end_sessions_of, failures_of = storage.stays, storage.end_sessions_of, storage.failures
note_failures, forget_one_failure = storage.note_failures, storage.forget_one_failure
