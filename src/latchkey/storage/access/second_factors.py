"""The second factor of accounts, and sign-ins that wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_BEGIN = query("begin_second_factor")
_LOAD = query("load_second_factor")
_CONFIRM = query("confirm_second_factor")
_USE_STEP = query("use_step")
_REMOVE = query("remove_second_factor")
_FORGET_CODES = query("forget_recovery_codes")
_ADD_CODES = query("add_recovery_codes")
_USE_CODE = query("use_recovery_code")
_COUNT_CODES = query("count_recovery_codes")
_BEGIN_HALF = query("begin_half_sign_in")
_FIND_HALF = query("find_half_sign_in")
_TAKE_HALF = query("take_half_sign_in")
_FORGET_HALVES = query("forget_half_sign_ins")


@dataclass(frozen=True, slots=True)
class SecondFactor:
    secret_sealed: bytes = field(repr=False)
    created_at: Ms
    # None: it is being set up.
    confirmed_at: Ms | None


async def begin(connection: Connection, account_id: str, secret_sealed: bytes, now: Ms) -> bool:
    """False: the account has a second factor already."""
    return await connection.fetchrow(_BEGIN, account_id, secret_sealed, now) is not None


async def load(connection: Connection, account_id: str) -> SecondFactor | None:
    row = await connection.fetchrow(_LOAD, account_id)
    return None if row is None else SecondFactor(*row)


async def confirm(connection: Connection, account_id: str, secret_sealed: bytes, step: int, now: Ms) -> bool:
    """False: it is confirmed already, or has another secret by now."""
    return await connection.fetchrow(_CONFIRM, account_id, now, step, secret_sealed) is not None


async def use_step(connection: Connection, account_id: str, step: int) -> bool:
    """False: the code of this step, or of a later one, was used already."""
    return await connection.fetchrow(_USE_STEP, account_id, step) is not None


async def remove(connection: Connection, account_id: str) -> bool:
    """False: there was none that was asked for."""
    await connection.execute(_FORGET_CODES, account_id)
    return await connection.fetchval(_REMOVE, account_id) is not None


async def replace_codes(connection: Connection, account_id: str, hashes: Sequence[bytes]) -> None:
    await connection.execute(_FORGET_CODES, account_id)
    await connection.execute(_ADD_CODES, account_id, list(hashes))


async def use_code(connection: Connection, account_id: str, code_hash: bytes) -> bool:
    """False: there is no such recovery code, or it was used already."""
    return await connection.fetchrow(_USE_CODE, account_id, code_hash) is not None


async def codes_left(connection: Connection, account_id: str) -> int:
    count: int = await connection.fetchval(_COUNT_CODES, account_id)
    return count


async def begin_half(connection: Connection, token_hash: bytes, account_id: str, expires_at: Ms) -> None:
    await connection.execute(_BEGIN_HALF, token_hash, account_id, expires_at)


async def find_half(connection: Connection, token_hash: bytes, now: Ms) -> str | None:
    account_id: str | None = await connection.fetchval(_FIND_HALF, token_hash, now)
    return account_id


async def take_half(connection: Connection, token_hash: bytes, now: Ms) -> str | None:
    account_id: str | None = await connection.fetchval(_TAKE_HALF, token_hash, now)
    return account_id


async def forget_halves(connection: Connection, account_id: str, now: Ms) -> None:
    """Those of this account, and all that are too old."""
    await connection.execute(_FORGET_HALVES, account_id, now)
