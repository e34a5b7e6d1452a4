"""Short helpers for what apps and operators do over HTTP."""

from collections.abc import Collection
from typing import Any
from urllib.parse import quote

from latchkey.database.distribution.statements import TABLES
from latchkey.domain.stores.store import AppStore
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.demo.usecases.project import APP_ID
from latchkey.subjects.projects import usecases as projects
from tests.http.client import NOW, Reply, Shop
from tests.http.management import post, walk

ANONYMOUS = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
OTHER_ANONYMOUS = "$RCAnonymousID:fedcba9876543210fedcba9876543210"
TOKEN = "test_1800000000123_4f0c"


async def show_receipt(
    shop: Shop, app_user_id: str, token: str = TOKEN, product_id: str | None = "pro_monthly", **more: Any
) -> Reply:
    """The demo's app sends a receipt of the test store. `headers` and `key` are options of the request; everything else
    is part of the body."""
    options = {"key": shop.public} | {name: more.pop(name) for name in ("headers", "key") if name in more}
    body = {"app_user_id": app_user_id, "fetch_token": token, "product_id": product_id, **more}
    return await shop.client.post("/v1/receipts", body, **options)


async def act(shop: Shop, action: str, app_user_id: str = "ada", product_id: str | None = None, **more: Any) -> Reply:
    named = {"product_id": product_id} if product_id is not None else {}
    return await post(shop, "test_store/actions", {"action": action, "app_user_id": app_user_id, **named, **more})


async def did(shop: Shop, action: str, app_user_id: str = "ada", product_id: str | None = None, **more: Any) -> Any:
    """An action that must succeed; gives the reply."""
    reply = await act(shop, action, app_user_id, product_id, **more)
    assert reply.status == 200, reply
    return reply.json()


async def invoice(shop: Shop, app_user_id: str, product_id: str) -> None:
    """A one-time purchase in a store that only the operator knows."""
    bought = {"store_purchase_identifier": f"invoice of {app_user_id}", "product_id": product_id, "purchased_at": NOW}
    sent = {"store": "bank_transfer", "app_user_id": app_user_id, "as_of": NOW, "purchase": bought}
    reply = await post(shop, "purchases", sent)
    assert reply.status == 200, reply


async def make_clock(shop: Shop, now_ms: int = NOW, name: str = "mine") -> str:
    reply = await post(shop, "test_clocks", {"name": name, "now_ms": now_ms})
    assert reply.status == 201, reply
    id: str = reply.json()["id"]
    return id


async def move_in(shop: Shop, app_user_id: str, clock_id: str) -> None:
    """Create a customer on a test clock."""
    reply = await post(shop, "customers", {"id": app_user_id, "test_clock_id": clock_id})
    assert reply.status == 201, reply


async def clock_with(shop: Shop, app_user_id: str, now_ms: int = NOW, name: str = "mine") -> str:
    """A test clock with a new customer on it."""
    clock_id = await make_clock(shop, now_ms, name)
    await move_in(shop, app_user_id, clock_id)
    return clock_id


async def advance(shop: Shop, clock_id: str, **how: Any) -> Any:
    reply = await post(shop, f"test_clocks/{clock_id}/advance", how)
    assert reply.status == 200, reply
    return reply.json()


async def told(shop: Shop, app_user_id: str = "ada") -> list[dict[str, Any]]:
    """Every event of a customer, oldest first, from the feed."""
    return await walk(shop, f"customers/{quote(app_user_id, safe='')}/events?limit=100")


async def types_told(shop: Shop, app_user_id: str = "ada") -> list[str]:
    return [event["type"] for event in await told(shop, app_user_id)]


async def subscriber(shop: Shop, app_user_id: str = "ada") -> dict[str, Any]:
    """The V1 subscriber as a server reads it."""
    reply = await shop.v1(quote(app_user_id, safe=""))
    assert reply.status == 200, reply
    body: dict[str, Any] = reply.json()["subscriber"]
    return body


async def unhurried(shop: Shop) -> None:
    """Give the shop's client and its app keys with a rate limit that no test reaches."""
    issued = await keys.create_secret_key(shop.database, shop.project_id, "unhurried", NOW, rate_limit=1_000_000)
    shop.client.key = issued.plaintext
    app = await keys.create_public_key(shop.database, shop.project_id, APP_ID, "unhurried", NOW, rate_limit=1_000_000)
    shop.public = shop.client.public = app.plaintext


async def app_key(shop: Shop, store: AppStore) -> str:
    """The public key of a new app in a store."""
    app = await projects.create_app(shop.database, shop.project_id, f"An app in {store}", store, shop.clock.now)
    return (await keys.create_public_key(shop.database, shop.project_id, app.id, store, NOW)).plaintext


# The counts of requests, and logs.
ABOUT_REQUESTS = ("rate_windows", "audit_entries")
# Written in the background, about once a second.
LATER = ("request_log", "key_uses", "facet_rolls", "facet_marks", "customer_facets")


async def count_rows(shop: Shop, apart_from: Collection[str] = ABOUT_REQUESTS) -> dict[str, int]:
    """The number of rows of every table, to check that a refused request added none. Left out: the counts of requests,
    and logs."""
    names = [name for name in TABLES if name not in apart_from and name not in LATER]
    counts = [f"select '{name}' as name, count(*) as rows from \"{name}\"" for name in names]
    # A distributed database counts one table at a time.
    statements = counts if shop.database.is_distributed else [" union all ".join(counts)]
    return {row["name"]: row["rows"] for one in statements for row in await shop.database.pool.fetch(one)}
