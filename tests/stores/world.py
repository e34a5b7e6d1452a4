"""Latchkey beside a store emulator: real HTTP between them, a real database, and one clock for both."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from latchkey.database.pool import Database
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.emulators.emulator import Emulator
from latchkey.emulators.emulator_server import ServedEmulator, running
from latchkey.engine.changes import Changes
from latchkey.engine.clock import pass_time
from latchkey.engine.storage import records
from latchkey.http.front import Front
from latchkey.process.http_application import create_application
from latchkey.settings import Settings
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.projects import usecases as projects
from latchkey.subjects.purchase_intake.rules import JournalEntry, JournalFilter
from latchkey.subjects.purchase_intake.usecases import journal
from latchkey.subjects.purchase_intake.usecases import store_connections as credentials
from latchkey.subjects.purchase_intake.usecases.notifications import Processor
from latchkey.subjects.purchase_intake.usecases.store_connections import Connections, connect
from tests.engine.fixtures import new_project
from tests.http.client import Client, Reply
from tests.http.serving import serving
from tests.stores.apple.app_receipt import make_receipt

PROJECT = "proj_store"
# The monthly subscription of the demo catalog, as each store names it.
PRODUCTS = {"apple": "pro_monthly", "google": "pro_monthly:monthly", "stripe": "pro_monthly"}
STORES = {"apple": "app_store", "google": "play_store", "stripe": "stripe"}


@dataclass
class World:
    database: Database
    store: Emulator[Any, Any]
    served: ServedEmulator
    client: Client
    app_id: str
    public_key: str
    connections: Connections
    processor: Processor
    changes: Changes
    # Waits until every receipt is in the journal.
    filed: Callable[[], Awaitable[None]]

    @property
    def now(self) -> Ms:
        return self.store.clock.now()

    async def connect(self) -> None:
        await credentials.save(self.connections, PROJECT, self.app_id, self.store.credentials(self.served.base_url))

    async def settle(self) -> None:
        """Send what the store has to send, and process everything that is due by now or in a few seconds."""
        await self.store.deliver()
        await self.process()
        await self.move(self.now + 15_000)

    async def sell(self, **sale: Any) -> str:
        purchase: str = self.store.sell(**sale)
        await self.settle()
        return purchase

    async def act(self, purchase: str, act: str, **options: Any) -> str:
        changed: str = self.store.act(purchase, act, **options)
        await self.settle()
        return changed

    async def process(self) -> None:
        while await self.processor.process_due():
            pass
        while await self.processor.check_due():
            pass
        while await self.processor.acknowledge_due():
            pass
        await self.pass_time()

    async def pass_time(self) -> None:
        while await pass_time(self.database, self.changes.catalogs, self.now):
            pass

    async def move(self, to: Ms, every: Ms | None = None) -> None:
        """Time passes for both, in steps of `every` at most. What the store does happens when it is due."""

        async def between(_: Ms) -> None:
            await self.process()

        while self.now < to:
            await self.store.move(to if every is None else min(self.now + every, to), between)

    async def is_known(self, store_id: str) -> bool:
        async with self.database.acquire() as connection:
            return await records.owner_of(connection, PROJECT, (STORES[self.store.name], store_id)) is not None

    async def owner(self, store_id: str) -> Customer:
        store = STORES[self.store.name]
        async with self.database.acquire() as connection:
            owner = await records.owner_of(connection, PROJECT, (store, store_id))
            assert owner is not None, f"nobody owns {store_id}"
        async with self.database.transaction() as connection:
            [found] = (await records.lock(connection, [(PROJECT, owner)])).values()
        return found.customer

    async def owner_id(self, app_user_id: str) -> str:
        """The store's id of this customer's only subscription."""
        async with self.database.transaction() as connection:
            [found] = (await records.lock(connection, [(PROJECT, app_user_id)])).values()
        [subscription] = found.customer.subscriptions
        return subscription.id

    async def journal(self, **wanted: Any) -> list[JournalEntry]:
        """Without the trial notifications that saving credentials brings about."""
        await self.filed()
        found = await journal.page(self.database, PROJECT, JournalFilter(**wanted), after=None, limit=1000)
        return [item for item in found if not item.kind.startswith("TEST")]

    async def events(self, app_user_id: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        following: str | None = f"/v2/projects/{PROJECT}/events?limit=100"
        while following is not None:
            reply = await self.client.get(following)
            assert reply.status == 200, reply
            items += reply.json()["items"]
            following = reply.json()["next_page"]
        return [item for item in items if item["app_user_id"] == app_user_id or app_user_id in item["aliases"]]

    async def types(self, app_user_id: str) -> list[str]:
        return [event["type"] for event in await self.events(app_user_id)]

    async def access(self, app_user_id: str) -> set[str]:
        reply = await self.client.get(f"/v2/projects/{PROJECT}/customers/{app_user_id}/active_entitlements")
        assert reply.status == 200, reply
        return {item["entitlement_id"] for item in reply.json()["items"]}

    async def show_receipt(self, purchase: str, app_user_id: str, **more: Any) -> Reply:
        body = {**self.store.receipt(purchase), "app_user_id": app_user_id, **more}
        return await self.client.post("/v1/receipts", body, key=self.public_key)


def storekit_1(world: World, *transaction_ids: str) -> str:
    """A receipt of StoreKit 1 in the App Store."""
    store: Any = world.store
    return make_receipt(
        store.keys.chain, bundle_id=store.app.bundle_id, created_at=world.now, transaction_ids=transaction_ids
    )


@contextlib.asynccontextmanager
async def world(database: Database, store: Emulator[Any, Any]) -> AsyncIterator[World]:
    def now() -> Ms:
        return store.clock.now()

    async with running(store) as served:
        host = served.base_url.partition("//")[2]
        settings = Settings(secret_key=bytes(32), store_allow_hosts=(host,), database_url=database.url)
        await new_project(database, PROJECT, now())
        app = await projects.create_app(database, PROJECT, "Notes", STORES[store.name], now())
        issued = await keys.create_public_key(database, PROJECT, app.id, "Notes", now())
        secret = await keys.create_secret_key(database, PROJECT, "Server", now(), rate_limit=keys.FASTEST)
        application = create_application(database, settings, now)
        assert isinstance(application, Front)
        connections = connect(database, settings, now)
        changes = Changes(database, now)
        try:
            async with serving(application) as url:
                made = World(
                    database,
                    store,
                    served,
                    Client(application, secret.plaintext),
                    app.id,
                    issued.plaintext,
                    connections,
                    Processor(database, connections, changes, now),
                    changes,
                    application.services.receipts.drain,
                )
                found = await credentials.load(connections, PROJECT, app.id)
                assert found is not None
                store.outbox.url = url + found.notification_path
                await made.connect()
                yield made
        finally:
            await connections.close()
