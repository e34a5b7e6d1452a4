"""Identities at the OpenID provider, linked to accounts."""

from __future__ import annotations

from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_LINK = query("link_openid")


async def link(connection: Connection, account_id: str, identity: str) -> bool:
    """False: the account is linked to another identity."""
    return await connection.fetchval(_LINK, account_id, identity) is not None
