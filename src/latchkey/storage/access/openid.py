"""Identities at the OpenID provider, linked to accounts."""

from __future__ import annotations

from latchkey.storage.access.accounts import Account, account_of
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_FIND = query("find_account_by_openid")
_LINK = query("link_openid")


async def find(connection: Connection, identity: str) -> Account | None:
    """The account that this identity is linked to."""
    row = await connection.fetchrow(_FIND, identity)
    return None if row is None else account_of(row)


async def link(connection: Connection, account_id: str, identity: str) -> bool:
    """False: the account is linked to another identity."""
    return await connection.fetchval(_LINK, account_id, identity) is not None
