"""Sessions of the dashboard, failed sign-ins, and second factors."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from latchkey.database.pool import Connection, Executor
from latchkey.database.sql import query
from latchkey.domain.instants import Ms
from latchkey.subjects.accounts.rules import Account, Role
from latchkey.subjects.accounts.storage.account_rows import account_of


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


class Failures(Struct, frozen=True):
    count: int
    # When the last of them happened; None if there were none.
    last_at: Ms | None


async def open(
    connection: Connection, token_hash: bytes, account_id: str, now: Ms, address: str, agent: str, through: str | None
) -> None:
    await connection.execute(query("open_session"), token_hash, account_id, now, address, agent, through)


async def find(connection: Executor, token_hash: bytes, project_id: str | None) -> StoredSession | None:
    row = await connection.fetchrow(query("find_session"), token_hash, project_id)
    if row is None:
        return None
    return StoredSession(
        opened_at=row["opened_at"],
        last_seen_at=row["last_seen_at"],
        account=account_of(row),
        role=Role(row["role"]) if row["role"] else None,
        notice=Notice(row["notice"], row["notice_kind"]) if row["notice"] else None,
        through=row["through"],
    )


async def touch(connection: Connection, token_hash: bytes, now: Ms) -> None:
    await connection.execute(query("touch_session"), token_hash, now)


async def end(connection: Executor, token_hash: bytes, account_id: str | None = None) -> None:
    """With an account: only if the session is one of its own."""
    await connection.execute(query("end_session"), token_hash, account_id)


async def end_all_of(connection: Executor, account_id: str, *, keep: bytes = b"") -> None:
    """Every session of the account except the one with the hash `keep`."""
    await connection.execute(query("end_sessions_of_account"), account_id, keep)


async def stays(connection: Executor, account_id: str) -> list[ListedSession]:
    """Last used first."""
    return [ListedSession(**row) for row in await connection.fetch(query("sessions_of_account"), account_id)]


async def forget_old(connection: Connection, opened_before: Ms, unused_since: Ms) -> None:
    await connection.execute(query("forget_old_sessions"), opened_before, unused_since)


async def set_notice(connection: Executor, token_hash: bytes, notice: Notice | None) -> None:
    await connection.execute(query("set_notice"), token_hash, notice and notice.text, notice and notice.kind)


async def failures(connection: Connection, subject: str, since: Ms) -> Failures:
    """Failed sign-ins counted under this subject. Locks the subject until the transaction ends."""
    await connection.execute(query("await_turn_to_guess"), subject)
    row = await connection.fetchrow(query("count_failed_sign_ins"), subject, since)
    assert row is not None, "an aggregate always has a row"
    return Failures(*row)


async def note_failures(connection: Connection, subjects: Sequence[str], now: Ms) -> None:
    await connection.execute(query("note_failed_sign_in"), subjects, now)


async def forget_one_failure(connection: Connection, subjects: Sequence[str], at: Ms) -> None:
    """Deletes one failure of each of these subjects, recorded at this time."""
    await connection.execute(query("forget_one_sign_in"), subjects, at)


async def forget_failures(connection: Connection, subjects: Sequence[str], older_than: Ms) -> None:
    """Deletes all failures of these subjects, and expired ones of all subjects."""
    await connection.execute(query("forget_failed_sign_ins"), subjects, older_than)


@dataclass(frozen=True, slots=True)
class SecondFactor:
    secret_sealed: bytes = field(repr=False)
    created_at: Ms
    # None: it is being set up.
    confirmed_at: Ms | None
    # Recovery codes that were not used yet.
    codes_left: int


async def begin(connection: Executor, account_id: str, secret_sealed: bytes, now: Ms) -> bool:
    """False: the account has a second factor already."""
    return await connection.fetchrow(query("begin_second_factor"), account_id, secret_sealed, now) is not None


async def load(connection: Executor, account_id: str) -> SecondFactor | None:
    row = await connection.fetchrow(query("load_second_factor"), account_id)
    return None if row is None else SecondFactor(*row)


async def confirm(connection: Connection, account_id: str, secret_sealed: bytes, step: int, now: Ms) -> bool:
    """False: it is confirmed already, or has another secret by now."""
    return await connection.fetchrow(query("confirm_second_factor"), account_id, now, step, secret_sealed) is not None


async def use_step(connection: Connection, account_id: str, step: int) -> bool:
    """False: the code of this step, or of a later one, was used already."""
    return await connection.fetchrow(query("use_step"), account_id, step) is not None


async def remove(connection: Executor, account_id: str) -> bool:
    """False: there was none that was asked for."""
    return await connection.fetchval(query("remove_second_factor"), account_id) is not None


async def replace_codes(connection: Connection, account_id: str, hashes: Sequence[bytes]) -> None:
    await connection.execute(query("set_recovery_codes"), account_id, hashes)


async def use_code(connection: Connection, account_id: str, code_hash: bytes) -> bool:
    """False: there is no such recovery code, or it was used already."""
    return await connection.fetchrow(query("use_recovery_code"), account_id, code_hash) is not None
