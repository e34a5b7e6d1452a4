"""Operators: accounts that may see what concerns the whole deployment.

Only the command line makes somebody one: whoever can run it has the database's password already. An owner of a project
cannot, because other projects are not theirs.
"""

from __future__ import annotations

from latchkey.domain.instants import Ms
from latchkey.storage.access import accounts, team
from latchkey.storage.access.accounts import Account
from latchkey.storage.database import Database


async def grant(database: Database, account: Account, now: Ms) -> None:
    """Earlier links to choose the account's password stop working: an owner of a project may hold one."""
    async with database.transaction() as connection:
        await team.set_operator(connection, account.id, now)
        await accounts.forget_tokens(connection, account.id, now, "password")


async def revoke(database: Database, account: Account) -> None:
    async with database.acquire() as connection:
        await team.set_operator(connection, account.id, None)


async def is_operator(database: Database, account_id: str) -> bool:
    async with database.acquire() as connection:
        account = await accounts.load(connection, account_id)
        return account is not None and account.is_operator


async def addresses(database: Database) -> list[str]:
    async with database.acquire() as connection:
        return await team.operator_addresses(connection)
