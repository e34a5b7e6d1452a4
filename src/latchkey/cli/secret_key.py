"""Checks that LATCHKEY_SECRET_KEY is the one this database was created with.

With another one the service would start and respond, but deliver nothing: it could not decrypt the webhooks' secrets.
"""

from __future__ import annotations

from typing import Any

from latchkey.delivery.sealing import Sealer, UnsealableError
from latchkey.settings import Problem
from latchkey.storage.sql import query

SEALED = query("load_a_sealed_secret")


async def problem_with(connection: Any, key: bytes) -> Problem | None:
    found = await connection.fetchrow(SEALED)
    if found is None:
        return None
    try:
        Sealer(key).unseal(found["secret_sealed"], f"{found['id']}/secret")
    except UnsealableError:
        return Problem(
            "LATCHKEY_SECRET_KEY",
            "does not decrypt the webhook secrets in this database.",
            "Give the one the database was created with.",
        )
    return None
