"""Checks that LATCHKEY_SECRET_KEY is the one this database was created with.

With another one the service would start and respond, but deliver nothing: it could not decrypt the webhooks' secrets.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from latchkey.cli.data_folder import DataFolder
from latchkey.cli.reach import is_of_up
from latchkey.delivery.sealing import Sealer, UnsealableError
from latchkey.settings import Problem, Settings, SettingsRefusedError
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
            "Use the key that the database was created with.",
        )
    return None


def needed(settings: Settings, config: Path | None, data: Path) -> bytes:
    """The key for a command that reads or writes secrets: that of the running `latchkey up`, or the configured one."""
    if is_of_up(config, data):
        return DataFolder(data).secret_key()
    if not settings.secret_key:
        remedy = "Give the one that `latchkey serve` runs with: it encrypts the secrets in the database."
        raise SettingsRefusedError([Problem("LATCHKEY_SECRET_KEY", "is missing.", remedy)])
    return settings.secret_key
