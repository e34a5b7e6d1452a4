"""Checks that LATCHKEY_SECRET_KEY is the one this database was created with.

With another one the service would start and respond, but deliver nothing: it could not decrypt the webhooks' secrets.
"""

from typing import Any

from latchkey.cli.project_command import ProjectContext
from latchkey.database.sealing import Sealer, UnsealableError
from latchkey.database.sql import query
from latchkey.settings import Problem, Settings, SettingsRefusedError


async def problem_with(connection: Any, key: bytes) -> Problem | None:
    found = await connection.fetchrow(query("load_a_sealed_secret"))
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


async def checked(at: ProjectContext) -> Settings:
    """For a command that reads or writes secrets."""
    if not at.settings.secret_key:
        remedy = "Give the one that `latchkey serve` runs with: it encrypts the secrets in the database."
        raise SettingsRefusedError([Problem("LATCHKEY_SECRET_KEY", "is missing.", remedy)])
    async with at.database.acquire() as connection:
        wrong = await problem_with(connection, at.settings.secret_key)
    if wrong is not None:
        raise SettingsRefusedError([wrong])
    return at.settings
