"""A project with the demo catalog and an app in two stores, into which files are imported."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from latchkey.database.pool import Database
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.engine.storage.state import load
from latchkey.subjects.imports.rules.row import Skip
from latchkey.subjects.imports.usecases.runs import ImportOrder, ImportResult, run_import
from latchkey.subjects.imports.usecases.staging import Format
from latchkey.subjects.projects.usecases import create_app
from tests.engine.fixtures import NOON, Core


@dataclass
class Desk:
    """Imports files into the project of a shop."""

    shop: Core
    folder: Path
    apps: dict[str, str]
    skipped: list[Skip] = field(default_factory=list)

    @property
    def database(self) -> Database:
        return self.shop.database

    def file(self, text: str, name: str = "rows.csv", *, gzipped: bool = False) -> Path:
        path = self.folder / name
        path.write_bytes(gzip.compress(text.encode()) if gzipped else text.encode())
        return path

    async def take(self, *files: Path | str, format: Format = "revenuecat", **more: Any) -> ImportResult:
        """Imports files, or texts as files."""
        paths = tuple(
            one if isinstance(one, Path) else self.file(one, f"rows{number}.csv") for number, one in enumerate(files)
        )
        self.skipped.clear()
        order = ImportOrder(project_id=self.shop.project_id, format=format, files=paths, **more)
        return await run_import(self.database, order, self._now, skipped=self.skipped.append)

    async def find(self, app_user_id: str) -> Customer | None:
        async with self.database.acquire() as connection:
            return await load(connection, self.shop.project_id, app_user_id)

    async def customer(self, app_user_id: str) -> Customer:
        customer = await self.find(app_user_id)
        assert customer is not None
        return customer

    @property
    def _now(self) -> Callable[[], Ms]:
        return lambda: self.shop.time


@pytest.fixture
async def desk(core: Core, tmp_path: Path) -> Desk:
    apps = {
        store: (await create_app(core.database, core.project_id, store, store, NOON)).id
        for store in ("app_store", "play_store")
    }
    return Desk(core, tmp_path, apps)
