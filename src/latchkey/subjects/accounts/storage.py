"""Accounts and their members, tokens that work once, sessions of the dashboard, failed sign-ins, and second factors."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from latchkey.database import rows
from latchkey.database.pool import Connection, Executor
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.subjects.accounts.rules import LONGEST_COUNTED, Account, Member, Membership, Role

# A link to choose a password, or a sign-in that waits for the second factor.
Purpose = Literal["password", "second_factor"]


class Credentials(Struct, frozen=True):
    id: str
    # None: the account has no password.
    password_hash: str | None


async def find_account(
    connection: Executor, *, id: str | None = None, email: str | None = None, openid: str | None = None
) -> Account | None:
    return await rows.fetch_one(connection, Account, query("find_account"), id, email, openid)


# With the account's id, or the hash of a token.
lock_account = rows.executes(query("lock_account"))
# None: the address is taken.
create_account = rows.fetches_one(Account, query("create_account"))
count_accounts = rows.fetches_value(int, query("count_accounts"))
credentials = rows.fetches_one(Credentials, query("password_of"))
# With the hash of a session. False: it has ended.
set_password = rows.returns_row(query("set_password"))
choose_password = rows.executes(query("choose_password"))
# False: nobody else may have chosen it.
forget_shown_password = rows.returns_row(query("forget_shown_password"))
# False: the account is linked to another identity.
link_openid = rows.returns_row(query("link_openid"))
# None: it is no operator any more.
set_operator = rows.executes(query("set_operator"))
operator_addresses = rows.fetches_column(str, query("list_operators"))

# In the order in which the account joined them.
places = rows.fetches_all(Membership, query("projects_of_account"))
role_of = rows.finds_value(str, query("role_of"))
# Adds a member, or changes the role of one.
put_member = rows.executes(query("put_member"))
remove_member = rows.returns_row(query("remove_member"))
# Whoever is no owner of a project any more can use no link to its members that they were shown.
forget_shown_links = rows.executes(query("forget_shown_links"))
# Account ids, locked: of two owners who leave at once, the second sees that the first has left.
lock_owners = rows.fetches_column(str, query("lock_owners"))


async def members(connection: Executor, project_id: str) -> list[Member]:
    """In the order in which they joined."""
    found = await connection.fetch(query("members_of_project"), project_id)
    return [rows.item_of(Member, row, account=dict(row)) for row in found]


async def add_token(
    connection: Executor,
    hash: bytes,
    account_id: str,
    purpose: Purpose,
    now: Ms,
    expires_at: Ms,
    most: int = 100,
    shown_to: str | None = None,
) -> None:
    """Of earlier tokens of the account for this purpose the newest stay, `most` in all."""
    await connection.execute(query("add_account_token"), hash, account_id, purpose, now, expires_at, most, shown_to)


class UsedToken(Struct, frozen=True):
    account_id: str
    # The account that was shown the link. None: only its owner got it.
    shown_to: str | None


# None: the token was used already, or is too old.
account_of_token = rows.fetches_one(Account, query("find_account_of_token"))
# Uses a token up. None as above.
take_token = rows.fetches_one(UsedToken, query("take_account_token"))


async def forget_tokens(connection: Connection, account_id: str, now: Ms, purpose: Purpose | None = None) -> None:
    """Those of this account, of one purpose or all, and all that have expired."""
    await connection.execute(query("forget_account_tokens"), account_id, purpose, now)


class Notice(Struct, frozen=True):
    """A message for the next page of a session."""

    text: str
    kind: str


class StoredSession(Struct, frozen=True):
    opened_at: Ms
    last_seen_at: Ms
    account: Account
    # The account's role in the requested project.
    role: Role | None
    notice: Notice | None
    # How the account signed in; None: with a password or a link.
    through: str | None


class ListedSession(Struct, frozen=True):
    """One session in the list of an account's sessions."""

    id: str
    created_at: Ms
    last_seen_at: Ms
    address: str
    agent: str


open_session = rows.executes(query("open_session"))
touch_session = rows.executes(query("touch_session"))
# Last used first.
stays = rows.fetches_all(ListedSession, query("sessions_of_account"))
forget_old_sessions = rows.executes(query("forget_old_sessions"))


async def find_session(connection: Executor, token_hash: bytes, project_id: str | None) -> StoredSession | None:
    row = await connection.fetchrow(query("find_session"), token_hash, project_id)
    if row is None:
        return None
    notice = Notice(row["notice"], row["notice_kind"]) if row["notice"] else None
    return rows.item_of(StoredSession, row, account=dict(row), notice=notice)


async def end_session(connection: Executor, token_hash: bytes, account_id: str | None = None) -> None:
    """With an account: only if the session is one of its own."""
    await connection.execute(query("end_session"), token_hash, account_id)


async def end_sessions_of(connection: Executor, account_id: str, *, keep: bytes = b"") -> None:
    """Every session of the account except the one with the hash `keep`."""
    await connection.execute(query("end_sessions_of_account"), account_id, keep)


async def set_notice(connection: Executor, token_hash: bytes, notice: Notice | None) -> None:
    await connection.execute(query("set_notice"), token_hash, notice and notice.text, notice and notice.kind)


class Failures(Struct, frozen=True):
    count: int
    # When the last of them happened; None if there were none.
    last_at: Ms | None


async def failures(connection: Connection, subject: str, since: Ms) -> Failures:
    """Failed sign-ins counted under this subject. Locks the subject until the transaction ends."""
    await connection.execute(query("await_turn_to_guess"), subject)
    row = await connection.fetchrow(query("count_failed_sign_ins"), subject, since)
    assert row is not None, "an aggregate always has a row"
    return Failures(*row)


async def note_failures(connection: Executor, subjects: Sequence[str], now: Ms) -> None:
    """One failure of each. Deletes some of those that no longer count for anybody."""
    await connection.execute(query("note_failed_sign_in"), subjects, now, now - LONGEST_COUNTED)


# One failure of each of these subjects, recorded at this time.
forget_one_failure = rows.executes(query("forget_one_sign_in"))
# All failures of these subjects.
forget_failures = rows.executes(query("forget_failed_sign_ins"))


@dataclass(frozen=True, slots=True)
class SecondFactor:
    secret_sealed: bytes = field(repr=False)
    created_at: Ms
    # None: it is being set up.
    confirmed_at: Ms | None
    # Recovery codes that were not used yet.
    codes_left: int


# False: the account has a second factor already.
begin_second_factor = rows.returns_row(query("begin_second_factor"))
load_second_factor = rows.fetches_one(SecondFactor, query("load_second_factor"))
# False: it is confirmed already, or has another secret by now.
confirm_second_factor = rows.returns_row(query("confirm_second_factor"))
# False: the code of this step, or of a later one, was used already.
use_step = rows.returns_row(query("use_step"))
# When it was confirmed. None: there was none that was asked for.
remove_second_factor = rows.finds_value(int, query("remove_second_factor"))
replace_codes = rows.executes(query("set_recovery_codes"))
# False: there is no such recovery code, or it was used already.
use_code = rows.returns_row(query("use_recovery_code"))
