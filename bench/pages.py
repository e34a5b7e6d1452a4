"""The dashboard's pages with a large project: 100,000 customers, 1,000,000 events, as many deliveries."""

import asyncio
import time
from pathlib import Path
from urllib.parse import quote

from pyreqwest.client import Client, ClientBuilder
from rich.progress import track

from bench.ground import Ground
from bench.population import settle, subscriber
from bench.table import Row
from latchkey.dashboard.cookie import SESSION
from latchkey.domain.customers.enrollment import Variant
from latchkey.domain.instants import DAY
from latchkey.domain.stores.test_store.orders import Action
from latchkey.engine.changes import Changes
from latchkey.now import real_now
from latchkey.process.dashboard_application import EVERY_PAGE
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.accounts.usecases import sessions, team
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.experiments.usecases import create_experiment
from latchkey.subjects.test_clocks import usecases as test_clocks
from latchkey.subjects.test_store import usecases as test_store
from latchkey.subjects.webhooks.delivery.queue import requeue_runs as requeue
from latchkey.subjects.webhooks.rules import ReplayRange

CUSTOMERS = 100_000
# The position of the first event that is inserted here and not created by the rules.
FIRST = 1_001
EVENTS_EACH = 10
# Customers bought on this many days, so that the charts have data.
GROUPS = 50
ROUNDS = 7
BAR_MS = 200
SOMEBODY = "bench7-77"
TYPES = ["INITIAL_PURCHASE", *["RENEWAL"] * 6, "CANCELLATION", "UNCANCELLATION", "RENEWAL"]

SEARCHES = {
    "": ("", "?days=365"),
    "/customers": ("", "?q=bench7-77", "?q=nobody", "?q=bench"),
    "/catalog/preview": ("?version={version}&attach=pro_monthly%7Cteam",),
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
KEY_OF_WEBHOOK = "select key from webhooks where id = $1"
ADVANCE_FEED = "update feeds set position = (select max(position) from events) where project_id = 'proj_demo'"


async def run(ground: Ground, customers: int = CUSTOMERS) -> list[Row]:
    authority = await asyncio.to_thread(Path(ground.certificates.authority).read_bytes)
    async with ground.service("api") as url, ClientBuilder().add_root_certificate_pem(authority).build() as client:
        webhook_id = await add_webhook(ground, client, url)
        params = await populate(ground, customers, webhook_id)
        return await measure(ground, client, url, params)


async def add_webhook(ground: Ground, client: Client, url: str) -> str:
    """Through the service, which encrypts its secrets."""
    asked = client.post(f"{url}/v2/projects/{ground.project_id}/integrations/webhooks").bearer_auth(ground.key)
    reply = await asked.body_json({"name": "Bench", "url": "https://93.184.216.34/hook"}).build().send()
    assert reply.status == 201, await reply.text()
    made: str = (await reply.json())["id"]
    return made


async def populate(ground: Ground, customers: int, webhook_id: str) -> dict[str, str]:
    """Fill the project; returns the values for the parameters of the pages' paths."""
    now = real_now()
    changes = Changes(ground.database, real_now)
    bought = Action(name="purchase", app_user_id="alice", product_id="pro_monthly", new_id="bench_alice")
    event = (await test_store.act(changes, ground.project_id, bought)).events[0]
    clock = await test_clocks.create_clock(ground.database, ground.project_id, "clk_bench", "Bench", now, now)
    variants = [Variant("a", 1), Variant("b", 1)]
    experiment = await create_experiment(ground.database, ground.project_id, "Bench", variants, now)
    for group in track(range(GROUPS), "customers", transient=True):
        bought_at = now - (GROUPS - group) * DAY // 2
        await settle(ground.database, f"bench{group}-", subscriber(bought_at), customers // GROUPS)
    async with ground.database.acquire() as connection:
        webhook = await connection.fetchval(KEY_OF_WEBHOOK, webhook_id)
        body = await connection.fetchval("select body::text from events where id = $1", event.id)
        first = await connection.fetchval("select min(id) from customers where app_user_id like 'bench%'")
        chunk = 2_000
        for start in track(range(first, first + customers, chunk), "events", transient=True):
            await connection.execute(ADD_EVENTS, start, EVENTS_EACH, TYPES, body, chunk, first, timeout=300)
        await connection.execute(ADVANCE_FEED)
        last = await connection.fetchval("select max(position) from events")
        for start in track(range(FIRST, last + 1, 50_000), "deliveries", transient=True):
            await connection.execute(ADD_DELIVERIES, webhook, start, start + 49_999, timeout=300)
        await connection.execute("vacuum analyze", timeout=900)
        known = await connection.fetchval(
            "select e.id from events e join customers c on c.id = e.customer_id where c.app_user_id = $1", SOMEBODY
        )
    failed = ReplayRange(0, None, "failed")
    replay = await requeue.start_replay(ground.database, ground.project_id, webhook_id, failed, now)
    return {
        "event_id": known,
        "project_id": ground.project_id,
        "customer_id": SOMEBODY,
        "webhook_id": webhook_id,
        "clock_id": clock.id,
        "experiment_id": experiment.id,
        "product_id": "pro_monthly",
        "entitlement_id": "pro",
        "code": "COIN",
        "app_id": "app_demo",
        "replay_id": replay.id,
    }


async def measure(ground: Ground, client: Client, url: str, params: dict[str, str]) -> list[Row]:
    """Every page that shows something, one at a time; the slowest of a few, after a warm-up."""
    database, now = ground.database, real_now()
    account, _ = await team.add_member(database, ground.project_id, "bench@example.com", Role.OWNER, now)
    token = await sessions.open_session(database, account.id, "127.0.0.1", "bench", now)
    entry = await audit.begin(
        database, project_id=ground.project_id, account_id=None, actor="bench", action="bench.began", now=now
    )
    async with database.acquire() as connection:
        version = await connection.fetchval("select catalog_version from projects where id = $1", ground.project_id)
    params = {**params, "account_id": account.id, "position": str(entry), "version": str(version)}
    rows = []
    # Warm-up: compile templates and create query plans.
    for path in shown(params):
        await one(client, url + path, token)
    for path in shown(params):
        took = max([await one(client, url + path, token) for _ in range(ROUNDS)])
        name = path.removeprefix(f"/dashboard/projects/{ground.project_id}") or "/"
        rows.append(Row(f"page {name[:60]}", took, "ms", bar=f"≤ {BAR_MS} ms", holds=took <= BAR_MS))
    return rows


def shown(params: dict[str, str]) -> list[str]:
    """Every readable page of a project, with real values in its path; and typical searches."""
    found = []
    for page in EVERY_PAGE:
        if page.method == "GET" and page.in_project and not page.path.endswith("/stream"):
            for more in SEARCHES.get(page.path.removeprefix("/dashboard/projects/{project_id}"), ("",)):
                path = page.path + more
                for name, value in params.items():
                    path = path.replace("{" + name + "}", quote(value, safe=""))
                assert "{" not in path, f"{page.path}: say in bench/pages.py what goes into its path"
                found.append(path)
    return found


async def one(client: Client, url: str, token: str) -> float:
    began = time.perf_counter()
    reply = await client.get(url).header("cookie", f"{SESSION}={token}").build().send()
    body = await reply.text()
    took = (time.perf_counter() - began) * 1000
    assert reply.status == 200, f"{url}: {reply.status} {body[:300]}"
    return took
