"""The dashboard's pages over a large project: 100,000 customers, 1,000,000 events, as many deliveries."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from urllib.parse import quote

from pyreqwest.client import Client, ClientBuilder
from rich.progress import track

from bench.ground import Ground
from bench.population import settle, subscriber
from bench.table import Row
from latchkey.dashboard.application import EVERY_PAGE
from latchkey.dashboard.cookie import NAME
from latchkey.dashboard.page import Page
from latchkey.domain.account import Role
from latchkey.domain.experiment import Variant
from latchkey.domain.instants import DAY
from latchkey.now import real_now
from latchkey.usecases import figures, sessions, team, test_clocks, test_store
from latchkey.usecases.changes import Changes
from latchkey.usecases.experiments import create_experiment

CUSTOMERS = 100_000
EVENTS_EACH = 10
# Customers bought on as many days, so that the charts have something to show.
GROUPS = 50
ROUNDS = 7
BAR_MS = 200
SOMEBODY = "bench7-77"
TYPES = ["INITIAL_PURCHASE", *["RENEWAL"] * 6, "CANCELLATION", "UNCANCELLATION", "RENEWAL"]

SEARCHES = {
    "": ("", "?days=365"),
    "/customers": ("", "?q=bench7-77", "?q=nobody", "?q=bench"),
    "/events": ("", "?type=CANCELLATION", "?type=TRANSFER"),
}

ADD_EVENTS = """
insert into events (
    project_id, position, id, customer_id, sequence, type, environment, occurred_at, committed_at, body
)
select 'proj_demo', 1000 + (c.id - $6) * $2 + s, 'bench-' || c.id || '-' || s, c.id, s, ($3::text[])[s],
    'PRODUCTION', c.first_seen_at + s * 86400000, c.first_seen_at + s * 86400000,
    replace($4::text, 'alice', c.app_user_id)::json
from customers c cross join generate_series(1, $2::int) as s
where c.project_id = 'proj_demo' and c.id >= $1 and c.id < $1 + $5
"""
ADD_DELIVERIES = """
insert into deliveries (
    project_id, customer_id, webhook_key, sequence, event_id, event_type, status, attempts, created_at, finished_at,
    response_status
)
select project_id, customer_id, $1, sequence, id, type,
    case when position % 97 = 0 then 'failed' else 'delivered' end, 1, committed_at, committed_at, 200
from events where project_id = 'proj_demo' and position between $2 and $3
"""
ADD_WEBHOOK = """
insert into webhooks (
    project_id, id, name, url, retry_seconds, in_flight_limit, secret_sealed, created_at, updated_at
) values ('proj_demo', 'wh_bench', 'Bench', 'https://example.com/hook', '{5}', 10, '', 1, 1) returning key
"""
ADVANCE_FEED = "update feeds set position = (select max(position) from events) where project_id = 'proj_demo'"


async def run(ground: Ground, customers: int = CUSTOMERS) -> list[Row]:
    params = await populate(ground, customers)
    began = time.perf_counter()
    while not await figures.catch_up(ground.database, ground.project_id, real_now()):
        pass
    counted = time.perf_counter() - began
    rows = [Row(f"figures of {customers:,} customers counted from nothing", counted, "s")]
    async with ground.service("api") as url:
        rows += await measure(ground, url, params)
    return rows


async def populate(ground: Ground, customers: int) -> dict[str, str]:
    """Fill the project; what to put for each name in a page's path."""
    now = real_now()
    changes = Changes(ground.database, real_now)
    bought = test_store.Action(name="purchase", app_user_id="alice", product_id="pro_monthly", new_id="bench_alice")
    event = (await test_store.act(changes, ground.project_id, bought)).events[0]
    clock = await test_clocks.create_clock(ground.database, ground.project_id, "clk_bench", "Bench", now, now)
    variants = [Variant("a", 1), Variant("b", 1)]
    experiment = await create_experiment(ground.database, ground.project_id, "Bench", variants, now)
    for group in track(range(GROUPS), "customers", transient=True):
        bought_at = now - (GROUPS - group) * DAY // 2
        await settle(ground.database, f"bench{group}-", subscriber(bought_at), customers // GROUPS)
    async with ground.database.acquire() as connection:
        webhook = await connection.fetchval(ADD_WEBHOOK)
        body = await connection.fetchval("select body::text from events where id = $1", event.id)
        first = await connection.fetchval("select min(id) from customers where app_user_id like 'bench%'")
        chunk = 2_000
        for start in track(range(first, first + customers, chunk), "events", transient=True):
            await connection.execute(ADD_EVENTS, start, EVENTS_EACH, TYPES, body, chunk, first, timeout=300)
        await connection.execute(ADVANCE_FEED)
        last = await connection.fetchval("select max(position) from events")
        for start in track(range(1, last + 1, 50_000), "deliveries", transient=True):
            await connection.execute(ADD_DELIVERIES, webhook, start, start + 49_999, timeout=300)
        await connection.execute("vacuum analyze", timeout=900)
        known = await connection.fetchval(
            "select e.id from events e join customers c on c.id = e.customer_id where c.app_user_id = $1", SOMEBODY
        )
    return {
        "event_id": known,
        "project_id": ground.project_id,
        "customer_id": SOMEBODY,
        "webhook_id": "wh_bench",
        "clock_id": clock.id,
        "experiment_id": experiment.id,
    }


async def measure(ground: Ground, url: str, params: dict[str, str]) -> list[Row]:
    """Every page that shows something, one at a time; the slowest of a few, after one that nobody waits for."""
    database, now = ground.database, real_now()
    account, _ = await team.add_member(database, ground.project_id, "bench@example.com", Role.OWNER, now)
    token = await sessions.open_session(database, account.id, "127.0.0.1", "bench", now)
    authority = await asyncio.to_thread(Path(ground.certificates.authority).read_bytes)
    builder = ClientBuilder().add_root_certificate_pem(authority).default_headers({"cookie": f"{NAME}={token}"})
    rows = []
    async with builder.build() as client:
        for page, path in shown(params):
            took = sorted([await one(client, url + path) for _ in range(ROUNDS + 1)][1:])[-1]
            name = page.path.removeprefix("/dashboard/projects/{project_id}") or "/"
            rows.append(Row(f"page {name}{path.partition('?')[1]}{path.partition('?')[2]}", took, "ms",
                            bar=f"≤ {BAR_MS} ms", holds=took <= BAR_MS))  # fmt: skip
    return rows


def shown(params: dict[str, str]) -> list[tuple[Page, str]]:
    """Every page below a project that is read, with something real in its path; and the searches people make."""
    found = []
    for page in EVERY_PAGE:
        if page.method == "GET" and page.in_project and not page.path.endswith("/stream"):
            path = page.path
            for name, value in params.items():
                path = path.replace("{" + name + "}", quote(value, safe=""))
            assert "{" not in path, f"{page.path}: say in bench/pages.py what goes into its path"
            found += [(page, path + more) for more in SEARCHES.get(page.path.rpartition("}")[2], ("",))]
    return found


async def one(client: Client, url: str) -> float:
    began = time.perf_counter()
    reply = await client.get(url).build().send()
    body = await reply.text()
    took = (time.perf_counter() - began) * 1000
    assert reply.status == 200, f"{url}: {reply.status} {body[:300]}"
    return took
