"""A project with the demo catalog, and a clock that the test moves."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec import json

from latchkey.database.pool import Database
from latchkey.domain.instants import Ms
from latchkey.domain.stores.test_store.orders import Action, ActionName
from latchkey.engine.changes import Changes, Committed
from latchkey.engine.clock import pass_time
from latchkey.subjects.demo.usecases.project import add_catalog
from latchkey.subjects.events.usecases import page_of_events
from latchkey.subjects.projects.usecases import create_project
from latchkey.subjects.purchase_intake.usecases.app_receipts import Receipt, take_receipt
from latchkey.subjects.test_store import usecases as test_store
from latchkey.wire.event import Event

NOON: Ms = 1_767_960_000_000  # 2026-01-09T12:00:00Z


@dataclass
class Core:
    database: Database
    project_id: str
    time: Ms = NOON
    numbers: Any = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.changes = Changes(self.database, lambda: self.time)

    async def act(self, name: ActionName, user: str = "alice", product: str | None = None, **more: Any) -> Committed:
        token = f"test_{self.time}_{next(self.numbers)}"
        action = Action(name=name, app_user_id=user, new_id=token, product_id=product, **more)
        return await test_store.act(self.changes, self.project_id, action)

    async def show(self, user: str, token: str, product: str | None = None) -> Committed:
        """The app of `user` shows a receipt."""
        receipt = Receipt(app_user_id=user, token=token, product_id=product, app_id="app_shop", store="test_store")
        return await take_receipt(self.changes, self.project_id, receipt)

    async def wait(self, length: Ms) -> None:
        self.time += length
        while await pass_time(self.database, self.changes.catalogs, self.time):
            pass

    async def make_anew(self, table: str) -> None:
        """As `pg_restore --clean` does it: the table is dropped and made again, with the rows of the dump."""
        for statement in (
            f"alter table {table} rename to dumped",
            f"create table {table} (like dumped including all)",
            f"insert into {table} select * from dumped",
            "drop table dumped",
        ):
            await self.database.pool.execute(statement)

    async def events(self, user: str | None = "alice") -> list[Event]:
        page = await page_of_events(self.database, self.project_id, after=None, limit=1000, app_user_id=user)
        return [json.decode(body, type=Event) for body in page.bodies]

    async def told(self, user: str | None = "alice") -> list[str]:
        return [event.type for event in await self.events(user)]


async def new_project(database: Database, project_id: str, now: int) -> None:
    """With the demo's catalog."""
    await create_project(database, "Shop", now, project_id=project_id)
    await add_catalog(database, project_id, now)


@pytest.fixture
async def core(database: Database) -> Core:
    await new_project(database, "proj_shop", NOON)
    return Core(database, "proj_shop")
