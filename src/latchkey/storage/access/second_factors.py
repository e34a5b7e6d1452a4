"""The second factor of accounts."""

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
_SET_CODES = query("set_recovery_codes")
_USE_CODE = query("use_recovery_code")


@dataclass(frozen=True, slots=True)
class SecondFactor:
    secret_sealed: bytes = field(repr=False)
    created_at: Ms
    # None: it is being set up.
    confirmed_at: Ms | None
    # Recovery codes that were not used yet.
    codes_left: int


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
    return await connection.fetchval(_REMOVE, account_id) is not None


async def replace_codes(connection: Connection, account_id: str, hashes: Sequence[bytes]) -> None:
    await connection.execute(_SET_CODES, account_id, hashes)


async def use_code(connection: Connection, account_id: str, code_hash: bytes) -> bool:
    """False: there is no such recovery code, or it was used already."""
    return await connection.fetchrow(_USE_CODE, account_id, code_hash) is not None
