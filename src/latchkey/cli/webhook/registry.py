"""The webhooks of a project, for commands: they need the secret key, which encrypts what is sent with them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer

from latchkey.cli import secret_key
from latchkey.cli.data_folder import DataFolder
from latchkey.cli.desk import Desk, desk
from latchkey.cli.reach import is_of_up
from latchkey.cli.up_settings import LOOPBACK
from latchkey.delivery.sealing import Sealer, UnsealableError
from latchkey.delivery.webhook import Webhooks
from latchkey.domain.refusal import Refusal
from latchkey.settings import SettingsRefusedError
from latchkey.usecases.webhooks.registry import Registry

WebhookArgument = Annotated[str, typer.Argument(help="The webhook's id.", metavar="WEBHOOK")]


@asynccontextmanager
async def registry_of(config: Path | None, data: Path, project: str | None) -> AsyncIterator[tuple[Desk, Registry]]:
    async with desk(config, data, project) as at:
        key = secret_key.needed(at.settings, config, data)
        async with at.database.acquire() as connection:
            wrong = await secret_key.problem_with(connection, key)
        if wrong is not None:
            raise SettingsRefusedError([wrong])
        allowed = at.settings.webhook_allow_networks
        if is_of_up(config, data):
            allowed = (*LOOPBACK, *allowed)
        try:
            yield at, Registry(at.database, Webhooks(at.database, Sealer(key)), allowed)
        except UnsealableError:
            raise Refusal("LATCHKEY_SECRET_KEY does not decrypt the secrets of this webhook.") from None


def authority_of_up(config: Path | None, data: Path) -> Path | None:
    """The receivers of a `latchkey up` have certificates of its own authority."""
    found = DataFolder(data).tls / "authority.pem"
    return found if is_of_up(config, data) and found.exists() else None
