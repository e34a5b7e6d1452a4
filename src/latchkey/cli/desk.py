"""What the commands `customer`, `event`, `webhook` and `product` work with: the use cases of one project."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from latchkey.cli.audited import audited
from latchkey.cli.key import chosen
from latchkey.cli.reach import database_url
from latchkey.domain.refusal import NotFound
from latchkey.now import real_now
from latchkey.settings import Settings, load
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.database import Database
from latchkey.usecases.engine.changes import Changes
from latchkey.usecases.engine.reading import Reader
from latchkey.usecases.rendering.view import View, look_at


@dataclass(frozen=True, slots=True)
class Desk:
    database: Database
    project_id: str
    settings: Settings
    catalogs: Catalogs
    changes: Changes
    reader: Reader

    async def customer(self, id: str) -> View:
        """The customer with this id, which may be any of their ids."""
        row = await self.reader.read(self.project_id, id)
        if row is None:
            raise NotFound(f"There is no customer {id!r}.", param="customer_id")
        return look_at(row, real_now())

    def audited(
        self, action: str, subject: str, *, afterwards: str = "", **detail: str
    ) -> AbstractAsyncContextManager[None]:
        return audited(self.database, self.project_id, action, subject, afterwards=afterwards, **detail)


@asynccontextmanager
async def desk(config: Path | None, data: Path, project: str | None) -> AsyncIterator[Desk]:
    async with Database(database_url(config, data), max_size=2) as database:
        catalogs = Catalogs()
        changes = Changes(database, real_now, catalogs)
        reader = Reader(database, catalogs)
        project_id = await chosen(database, project)
        yield Desk(database, project_id, load(os.environ, config), catalogs, changes, reader)
        await changes.drain()
