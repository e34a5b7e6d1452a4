"""The webhooks of a project, for commands: they need the secret key, which encrypts what is sent with them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class WebhookDesk:
    at: Desk
    webhooks: Registry
    # The receivers of a `latchkey up` have certificates of its own authority.
    extra_ca: Path | None


@asynccontextmanager
async def webhook_desk(
    config: Path | None, data: Path, project: str | None, as_json: bool
) -> AsyncIterator[WebhookDesk]:
    async with desk(config, data, project, as_json) as at:
        key = secret_key.needed(at.settings, config, data)
        async with at.database.acquire() as connection:
            wrong = await secret_key.problem_with(connection, key)
        if wrong is not None:
            raise SettingsRefusedError([wrong])
        allowed, extra_ca = at.settings.webhook_allow_networks, at.settings.webhook_extra_ca
        if is_of_up(config, data):
            allowed = (*LOOPBACK, *allowed)
            authority = DataFolder(data).tls / "authority.pem"
            extra_ca = extra_ca or (authority if authority.exists() else None)
        try:
            yield WebhookDesk(at, Registry(at.database, Webhooks(at.database, Sealer(key)), allowed), extra_ca)
        except UnsealableError:
            raise Refusal("LATCHKEY_SECRET_KEY does not decrypt the secrets of this webhook.") from None
