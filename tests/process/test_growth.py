"""Months of daily life, and no table that only grows: the clock and delivery roles delete what is not kept, or a table
keeps facts and is named here with the reason.

Time is compressed: forty days pass between two days of life, and on each of them the same happens.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from latchkey.database.pool import Database
from latchkey.domain.instants import DAY, HOUR, Ms
from latchkey.domain.refusal import Refusal
from latchkey.emulators.apple.apple_books import AppleBooks
from latchkey.emulators.apple.apple_emulator import AppleApp, AppleEmulator
from latchkey.emulators.emulator import EmulatorClock
from latchkey.emulators.emulator_server import running
from latchkey.process import service
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.accounts.usecases import accounts, sessions, team
from latchkey.subjects.bulk_grants import usecases as bulk_grants
from latchkey.subjects.bulk_grants.rules import GrantTerms
from latchkey.subjects.demo.usecases.project import ensure_demo
from latchkey.subjects.exports import storage as exports_storage
from latchkey.subjects.imports.usecases.runs import ImportOrder, run_import
from latchkey.subjects.webhooks.delivery import role as delivery_role
from tests.http.apple import AppStore, connected_app, keys
from tests.http.management import delete, post
from tests.http.receiving import Post, posting
from tests.http.till import Page, opened_page, services_of
from tests.patience import until
from tests.stores.apple.app_receipt import make_receipt

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.one_server("the statistics of inserted rows are those of one server"),
]
# What is kept longest is kept for 90 days. The second half of the days is longer than that.
DAYS, APART = 8, 40 * DAY

# Tables that an operator fills by hand, or that have a row for each project, key or currency: no life makes them grow.
CONFIGURED = frozenset({
    "accounts", "alert_subscriptions", "alert_watches", "apps", "customer_keys", "customer_segments",
    "entitlements", "exchange_rate_readings", "experiments", "exports", "facet_rolls", "feeds",
    "former_product_entitlements", "memberships", "offerings", "package_products", "packages", "placements",
    "product_entitlements", "product_prices", "products", "projects", "purchase_links", "restores",
    "schema_migrations", "second_factors", "server_identity", "store_connections", "targeting_rules",
    "virtual_currencies",
})  # fmt: skip
# Tables that grow for ever, and why.
FACTS: Mapping[str, str] = {
    "customers": "until they are erased",
    **dict.fromkeys(
        ("aliases", "customer_emails", "customer_facets", "customer_notes", "offering_overrides", "purchase_owners",
         "purchase_transactions", "currency_transactions", "store_handles", "absorbed_customers"),
        "as long as the customer",
    ),
    "chart_periods": "what was paid, which charts count for ever",
    "chart_customers": "who was erased, as charts count them",
    "purchase_endings": "a receipt that was signed before a refund stays valid for ever",
    "gone_customers": "an export says who was erased since the one before it, however long ago that was",
    "rewritten_events": "the same of events that an erasure rewrote",
    "events": "the feed goes back to the first event",
    "former_public_keys": "a phone that still has the key of a deleted app must not drop a purchase",
    "key_uses": "as long as the key",
    "api_keys": "a revoked key stays named in lists and in the audit log",
    "audit_entries": "who did what",
    "bulk_grants": "who got what; drafts are deleted",
    "bulk_grant_customers": "the same",
    "imports": "what was imported; the same files again change nothing",
    "import_skips": "which lines were not",
    "exchange_rates": "what was paid is converted at the rate of its day",
    "partitions": "one row for a week of a large installation",
}  # fmt: skip
# Tables that this life does not write, and the test that sees their rows deleted.
ELSEWHERE: Mapping[str, str] = {
    "event_traces": "test_traces_of_events_are_forgotten_after_a_while",
}

TABLES = """
select relname from pg_class
where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
"""
WRITTEN = """
select coalesce(root.relname, c.relname) as name
from pg_class c left join pg_class root on root.oid = pg_partition_root(c.oid)
where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and pg_stat_get_tuples_inserted(c.oid) > 0
"""
NOW = "select (extract(epoch from now()) * 1000)::bigint"
# What is still to be done.
PENDING = """
select (
        select count(*) from lanes l join webhooks w on w.key = l.webhook_key
        where l.next_at <= $1 and w.failing_since is null and w.deleted_at is null
    )
    + (select count(*) from store_notifications where status = 'waiting' and next_at <= $1)
    + (select count(*) from outgoing_mails where due_at <= $1) + (select count(*) from facet_marks)
    + (select count(*) from bulk_grants where state = 'running')
    + (select count(*) from exports where next_at <= $1)
    + (select count(*) from store_handles where check_at <= $1)
    + (select count(*) from alert_watches where look_at <= $1)
    + (select count(*) from replays where finished_at is null)
"""


@dataclass
class World:
    shop: Post
    folder: Path
    store: AppStore
    app_id: str
    app_key: str
    notification_url: str
    page: Page
    email: str

    async def ok(self, reply: Any, *statuses: int) -> Any:
        assert reply.status in (statuses or (200, 201, 202)), reply
        return reply.json()

    async def buy(self, buyer: str, product_id: str) -> None:
        receipt = {"app_user_id": buyer, "fetch_token": f"test_1_{uuid4()}", "product_id": product_id}
        await self.ok(await self.shop.client.post("/v1/receipts", receipt, key=self.shop.public))

    async def counts(self) -> dict[str, int]:
        pool = self.shop.database.pool
        names = [row["relname"] for row in await pool.fetch(TABLES)]
        return {name: await pool.fetchval(f"select count(*) from {name}") for name in names}

    async def is_settled(self) -> bool:
        return not await self.shop.database.pool.fetchval(PENDING, self.shop.clock.now)


async def customers_live(world: World, day: int) -> None:
    shop = world.shop
    buyer = f"buyer{day}"
    for product_id in ("pro_monthly", "coins_100"):
        await world.buy(buyer, product_id)
    await shop.client.get(f"/v1/subscribers/{buyer}", key=shop.public, headers={"x-platform": "iOS"})
    await world.ok(await shop.client.post(f"/v1/subscribers/{buyer}/attributes", {
        "attributes": {"$email": {"value": f"{buyer}@example.com", "updated_at_ms": shop.clock.now}}
    }, key=shop.public))  # fmt: skip
    once = {"idempotency-key": str(uuid4())}
    action = {"action": "cancel", "app_user_id": buyer, "product_id": "pro_monthly"}
    await world.ok(await post(shop, "test_store/actions", action, headers=once))
    # Somebody who pays in a currency without a rate, is refunded, and is erased.
    gone = {"app_user_id": f"gone{day}", "product_id": "pro_monthly"}
    abroad = {"environment": "PRODUCTION", "currency": "SEK"}
    await world.ok(await post(shop, "test_store/actions", {"action": "purchase", **gone, **abroad}))
    await world.ok(await post(shop, "test_store/actions", {"action": "refund", **gone}))
    # What is under way at an erasure is sent again when its lease ends, and this clock stands still.
    await until(world.is_settled)
    await world.ok(await delete(shop, f"customers/gone{day}"))
    # Nobody at a key that does not exist.
    assert (await shop.client.get("/v1/subscribers/ada", key="sk_wrong")).status == 401


async def store_lives(world: World, day: int) -> None:
    """A sale that is told of, one that only the safety net finds, and one in an outage of the store."""
    shop, emulator = world.shop, world.store.emulator
    emulator.clock.reach(shop.clock.now)
    emulator._advance(shop.clock.now)
    told, lost = (emulator.sell(product_id="pro_monthly", buyer=f"{name}{day}") for name in ("told", "lost"))
    await world.store.send(shop, world.notification_url)
    for id, buyer in ((told, f"told{day}"), (lost, f"lost{day}")):
        shown = {"app_user_id": buyer, **emulator.receipt(id)}
        await world.ok(await shop.client.post("/v1/receipts", shown, key=world.app_key))
        # It ends before the next day of life, so that no day has more to do than the one before.
        emulator.act(id, "cancel")
    emulator.misbehave(api={"kind": "error", "status": 503})
    late = emulator.sell(product_id="pro_monthly", buyer=f"late{day}")
    token = make_receipt(
        emulator.keys.chain, bundle_id=emulator.app.bundle_id, created_at=shop.clock.now, transaction_ids=(late,)
    )
    shown = {"app_user_id": f"late{day}", "fetch_token": token, "product_ids": ["pro_monthly"]}
    await world.ok(await shop.client.post("/v1/receipts", shown, key=world.app_key))
    emulator.behave()
    emulator.act(late, "cancel")


async def operators_live(world: World, day: int) -> None:
    shop, now = world.shop, world.shop.clock.now
    database, project = shop.database, shop.project_id
    account = await accounts.find_account(database, world.email)
    assert account is not None
    with pytest.raises(Refusal):
        await sessions.sign_in(database, world.email, "wrong", f"192.0.2.{day}", now)
    await sessions.open_session(database, account.id, "192.0.2.1", "a browser", now)
    await accounts.add_link(database, account.id, now, HOUR)
    mail = services_of(shop).mail
    assert mail is not None
    await mail.ask_for_reset(world.email, f"192.0.2.{day}", now)
    # An app that is made, used and deleted; a webhook that fails for days and is deleted; a clock that is moved.
    app = await world.ok(await post(shop, "apps", {"name": "Short", "type": "test_store"}))
    key = app["public_api_key"]["key"]
    await world.ok(await shop.client.get(f"/v1/subscribers/buyer{day}", key=key))
    await world.ok(await delete(shop, f"apps/{app['id']}"))
    rotated = await world.ok(await post(shop, f"apps/{world.app_id}/credentials/rotate_notification_url", {}))
    world.notification_url = rotated["notification_url"]
    made = await world.ok(await post(shop, "api_keys", {"name": "short", "scopes": ["read", "write"]}))
    await world.ok(await shop.client.get(f"/v1/subscribers/buyer{day}", key=made["key"]))
    await world.ok(await delete(shop, f"api_keys/{made['id']}"))
    clock = await world.ok(await post(shop, "test_clocks", {"name": "short", "now_ms": now}))
    await world.ok(await post(shop, "customers", {"id": f"clock{day}", "test_clock_id": clock["id"]}))
    await world.ok(await post(shop, f"test_clocks/{clock['id']}/advance", {"by": "P2M"}))
    await world.ok(await delete(shop, f"customers/clock{day}"))
    await world.ok(await delete(shop, f"test_clocks/{clock['id']}"))
    # A grant that is only tried, and one that is given.
    for confirmed in (False, True):
        terms = GrantTerms(entitlement_id="pro", duration="daily", ends_at=None, skip_holders=False)
        catalogs = shop.changes.catalogs
        made = await bulk_grants.draft(database, catalogs, project, terms, [f"buyer{day}"], "ada", now)
        if confirmed:
            await bulk_grants.start(database, project, made.id, now)
    file = world.folder / f"import{day}.csv"
    # The second line has no id, and is not imported.
    file.write_text(f'app_user_id,aliases\nimported{day},"[""other{day}""]"\n,\n')
    order = ImportOrder(project_id=project, format="latchkey", files=(file,))
    await run_import(database, order, lambda: now)
    world.page.provider.now = now
    await world.page.started(f"buyer{day}")


async def one_day(world: World, day: int) -> None:
    """And a webhook that fails all day, is asked to try again, and is deleted in the evening."""
    shop = world.shop
    began = shop.clock.now
    failing = await shop.hook("/status/500", name=f"failing{day}")
    for live in (customers_live, store_lives, operators_live):
        await live(world, day)
    for later in (4 * HOUR, 19 * HOUR):
        await until(world.is_settled)
        shop.clock.now += later
    await until(world.is_settled)
    await world.ok(await shop.call("POST", f"{failing['id']}/replay", {"since_ms": began, "status": "all"}))
    await until(world.is_settled)
    await world.ok(await delete(shop, f"integrations/webhooks/{failing['id']}"))
    shop.clock.now += HOUR


async def test_no_table_only_grows(
    database: Database, tmp_path: Path, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing is deleted that the database's own clock calls young, so all of this is in the past.
    began = await database.pool.fetchval(NOW) - (DAYS + 1) * APART
    await database.pool.execute("select pg_stat_reset()")
    async with opened(database, tmp_path, short_folder, began) as world:
        for module in (service, delivery_role):
            monkeypatch.setattr(module, "real_now", world.shop.clock)
        monkeypatch.setattr(exports_storage, "RUNS_KEPT", 3)
        middle: dict[str, int] = {}
        for day in range(DAYS):
            async with roles(world):
                await one_day(world, day)
            world.shop.clock.now += APART - DAY
            if day == DAYS // 2 - 1:
                middle = await world.counts()

        grown: dict[str, str] = {}

        async def is_bounded() -> bool:
            grown.clear()
            for name, count in (await world.counts()).items():
                if count > middle[name] and name not in FACTS:
                    grown[name] = f"{middle[name]} rows in the middle, {count} at the end"
            return not grown

        async with roles(world):
            await until(is_bounded, lambda: f"tables that only grow: {grown}")
        never = middle.keys() - CONFIGURED - FACTS.keys() - ELSEWHERE.keys()

        async def are_written() -> bool:
            never.difference_update(row["name"] for row in await database.pool.fetch(WRITTEN))
            return not never

        # Otherwise this test says nothing about them.
        await until(are_written, lambda: f"no day writes {sorted(never)}; name the test that sees their rows deleted")


def test_the_tests_that_are_named_exist() -> None:
    known = "".join(file.read_text() for file in Path(__file__).parents[1].rglob("test_*.py"))
    assert [name for name in ELSEWHERE.values() if f"def {name}(" not in known] == []


@asynccontextmanager
async def opened(database: Database, folder: Path, short_folder: Path, began: Ms) -> AsyncIterator[World]:
    demo = await ensure_demo(database, began, secret_key=None, public_key=None)
    app = AppleApp(bundle_id="com.example.notes", app_apple_id=1_234_567_890)
    emulator = AppleEmulator(keys(), app, AppleBooks(), EmulatorClock(starts_at=began, ticks=False))
    own: dict[str, Any] = {
        "mail_folder": folder / "mail",
        "charts_folder": folder / "charts",
        "public_url": "https://lk.example.com",
    }
    async with posting(database, short_folder, demo=demo, **own) as shop, running(emulator) as served:
        shop.clock.now = began
        store = AppStore(emulator, served.base_url)
        made = await connected_app(shop, store)
        path = f"/v2/projects/{shop.project_id}/apps/{made['id']}/credentials"
        url = (await shop.client.get(path)).json()["notification_url"]
        email = "ada@example.com"
        await accounts.create_account(database, email, began, password="correct horse battery")
        await team.add_member(database, shop.project_id, email, Role.OWNER, began)
        account = await accounts.find_account(database, email)
        assert account is not None
        await services_of(shop).alerts.subscribe(shop.project_id, account.id, ("webhook",), "daily", "mail", "", began)
        await shop.hook("/")
        new = {"name": "all", "what": ["events"], "destination": "out", "every": "day"}
        assert (await post(shop, "exports", new)).status == 201
        yield World(
            shop, folder, store, made["id"], made["public_api_key"]["key"], url,
            await opened_page(shop, "stripe"), email,
        )  # fmt: skip


@asynccontextmanager
async def roles(world: World) -> AsyncIterator[None]:
    """The processes that clean up, in this one. They begin with what is done every minute or hour."""
    stop, ready = asyncio.Event(), asyncio.Event()
    work = service.run_process(world.shop.settings, ("clock", "delivery"), None, stop, ready.set)
    running = asyncio.create_task(work)
    try:
        await until(lambda: ready.is_set() or running.done())
        yield
    finally:
        stop.set()
        await running
