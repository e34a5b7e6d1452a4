"""The connections to the stores, for commands: the database, the secret key, and where the service is reached."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from latchkey.api.outside import connect
from latchkey.cli import secret_key
from latchkey.cli.audited import audited
from latchkey.cli.data_folder import DataFolder
from latchkey.cli.desk import chosen
from latchkey.cli.files import read_json
from latchkey.cli.reach import database_url, is_of_up
from latchkey.delivery.sealing import UnsealableError
from latchkey.domain.refusal import Refusal
from latchkey.now import real_now
from latchkey.settings import Settings, SettingsRefusedError, load
from latchkey.storage.database import Database
from latchkey.usecases.stores.connections import Connections


@dataclass(frozen=True, slots=True)
class StoreDesk:
    connections: Connections
    project_id: str
    # Where the service is reached, if this machine knows it.
    base: str
    as_json: bool

    def audited(self, action: str, subject: str) -> AbstractAsyncContextManager[None]:
        return audited(self.connections.database, self.project_id, action, subject)


@asynccontextmanager
async def store_desk(config: Path | None, data: Path, project: str | None, as_json: bool) -> AsyncIterator[StoreDesk]:
    settings = load(os.environ, config)
    settings = _with(settings, database_url(config, data), secret_key.needed(settings, config, data))
    base = read_json(DataFolder(data).connection).get("base_url", "") if is_of_up(config, data) else ""
    async with Database(settings.database_url, max_size=2) as database:
        async with database.acquire() as connection:
            wrong = await secret_key.problem_with(connection, settings.secret_key)
        if wrong is not None:
            raise SettingsRefusedError([wrong])
        connections = connect(database, settings, real_now)
        try:
            yield StoreDesk(connections, await chosen(database, project), str(base), as_json)
        except UnsealableError:
            raise Refusal(
                "LATCHKEY_SECRET_KEY is not the one that the credentials in this database were encrypted with."
            ) from None
        finally:
            await connections.close()


def _with(settings: Settings, url: str, key: bytes) -> Settings:
    fields = {name: getattr(settings, name) for name in Settings.__struct_fields__}
    return Settings(**{**fields, "database_url": url, "secret_key": key})
