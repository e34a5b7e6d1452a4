"""Products from the stores: listed beside the catalog over each store's own protocol, and taken over."""

from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.errors import StoreDown
from latchkey.stores.google import publisher
from latchkey.subjects.projects import usecases as projects
from latchkey.subjects.store_products import usecases
from tests.engine.fixtures import new_project
from tests.http.client import Reply
from tests.http.serving import serving
from tests.stores.world import PROJECT, STORES, World

# What the emulators sell at first, in the words of the catalog.
SOLD = {
    "apple": {
        "basic_monthly": ("subscription", "P1M", None, 4.99),
        "coins_100": ("consumable", None, None, 1.99),
        "pro_lifetime": ("non_consumable", None, None, 199.99),
        "pro_monthly": ("subscription", "P1M", "P1W", 9.99),
        "pro_yearly": ("subscription", "P1Y", None, 79.99),
        "team_monthly": ("subscription", "P1M", None, 29.99),
    },
    "google": {
        "basic_monthly:monthly": ("subscription", "P1M", None, 4.99),
        "coins_100": ("one_time", None, None, 1.99),
        "pro_lifetime": ("one_time", None, None, 199.99),
        "pro_monthly:monthly": ("subscription", "P1M", "P7D", 9.99),
        "pro_monthly:prepaid": ("non_renewing_subscription", "P1M", None, 10.99),
        "pro_yearly:yearly": ("subscription", "P1Y", None, 79.99),
        "team_monthly:monthly": ("subscription", "P1M", None, 29.99),
    },
}
NOWHERE = {"id": "nowhere", "kind": "one_time", "price": 1, "currency": "USD"}
NEW = {"apple": "gold", "google": "gold:monthly", "stripe": "gold:price_gold"}


def path(app_id: str, project_id: str = PROJECT) -> str:
    return f"/v2/projects/{project_id}/apps/{app_id}/store_products"


async def listed(world: World) -> dict[str, dict[str, Any]]:
    reply = await world.client.get(path(world.app_id))
    assert reply.status == 200, reply
    return {one["id"]: one for one in reply.json()["items"]}


async def take_over(world: World, *ids: str) -> Reply:
    return await world.client.post(f"{path(world.app_id)}/actions/take_over", {"product_ids": ids})


async def product(world: World, id: str) -> dict[str, Any]:
    reply = await world.client.get(f"/v2/projects/{PROJECT}/products/{id}")
    assert reply.status == 200, reply
    found: dict[str, Any] = reply.json()
    return found


def add(world: World, **terms: Any) -> str:
    """A new subscription of the store, and its id in the catalog."""
    plan = {"plan": "monthly"} if world.store.name == "google" else {}
    world.store.add_product({"id": "gold", "price": 9.99, **plan, **terms})
    return NEW[world.store.name]


@pytest.mark.parametrize("market", SOLD, indirect=True)
async def test_everything_that_the_store_sells_is_listed_in_the_words_of_the_catalog(market: World) -> None:
    found = {
        id: (one["type"], one["duration"], one["trial_duration"], one["price"])
        for id, one in (await listed(market)).items()
        if one["status"] != "missing"
    }
    assert found == SOLD[market.store.name]


async def test_stripe_lists_each_price_of_a_product(billing: World) -> None:
    billing.store.add_product({"id": "gold", "name": "Gold", "price": 30, "period": "P3M", "price_id": "price_q"})
    billing.store.add_product({"id": "gold", "price": 99, "price_id": "price_once", "currency": "EUR"})
    found = await listed(billing)
    quarter, once = found["gold:price_q"], found["gold:price_once"]
    assert (quarter["type"], quarter["duration"], quarter["display_name"]) == ("subscription", "P3M", "Gold")
    assert (once["type"], once["price"], once["currency"]) == ("one_time", 99.0, "EUR")


OFFERS = {"apple": ("basic_monthly", "introductory"), "google": ("basic_monthly:monthly", "intro")}


@pytest.mark.parametrize("market", OFFERS, indirect=True)
async def test_introductory_prices_are_shown(market: World) -> None:
    id, name = OFFERS[market.store.name]
    assert (await listed(market))[id]["offers"] == [f"{name}: $0.99 for 3 times 1 month"]


async def test_a_new_product_is_taken_over_once_with_its_terms(market: World) -> None:
    id = add(market, period="P1M")
    assert (await listed(market))[id]["status"] == "new"
    reply = await take_over(market, id)
    assert (reply.status, reply.json()["created"], reply.json()["updated"]) == (200, [id], []), reply
    made = await product(market, id)
    assert (made["kind"], made["duration"], made["price"], made["currency"]) == ("subscription", "P1M", 9.99, "USD")
    assert (made["app_ids"], made["entitlement_ids"]) == ([market.app_id], [])
    assert (await listed(market))[id]["status"] == "same"
    again = await take_over(market, id)
    assert (again.status, again.json()["created"], again.json()["updated"]) == (200, [], [])
    assert await product(market, id) == made


async def test_what_differs_is_shown_and_follows_the_store(market: World) -> None:
    id = add(market, period="P1M")
    await take_over(market, id)
    add(market, period="P1Y", price=49.99)
    differences = {one["field"]: (one["here"], one["there"]) for one in (await listed(market))[id]["differences"]}
    assert differences == {"price": ("$9.99", "$49.99"), "duration": ("1 month", "1 year")}
    reply = await take_over(market, id)
    assert reply.json()["updated"] == [id]
    made = await product(market, id)
    assert (made["duration"], made["price"]) == ("P1Y", 49.99)


@pytest.mark.parametrize("market", ["apple", "google"], indirect=True)
async def test_prices_of_other_countries_are_listed_for_the_store(market: World) -> None:
    country = {"apple": "DEU", "google": "DE"}[market.store.name]
    elsewhere = {"elsewhere": {country: {"price": 8.99, "currency": "EUR"}}}
    once = {"kind": "consumable"} if market.store.name == "apple" else {"consumable": True}
    market.store.add_product({"id": "gems", **once, **elsewhere})
    ids = add(market, period="P1M", **elsewhere), "gems"
    assert (await take_over(market, *ids)).json()["created"] == list(ids)
    for id in ids:
        shown = (await market.client.get(f"/v2/projects/{PROJECT}/products/{id}/prices")).json()["items"]
        store = STORES[market.store.name]
        assert [one["id"] for one in shown] == [f"{store}.DE.EUR"]
        assert shown[0]["price"] == 8.99


async def test_a_plan_that_another_product_stood_for_is_taken_over_and_nobody_loses_access(google: World) -> None:
    """The catalog has `pro_monthly`, which grants `pro` to the owners of all its plans."""
    await google.sell(product_id="pro_monthly:monthly", account_token="ada")
    assert await google.access("ada") == {"pro"}
    assert (await listed(google))["pro_monthly:monthly"]["status"] == "covered"
    reply = await take_over(google, "pro_monthly:monthly", "pro_monthly:prepaid")
    assert reply.json()["created"] == ["pro_monthly:monthly", "pro_monthly:prepaid"]
    assert await google.access("ada") == {"pro"}
    assert (await product(google, "pro_monthly:monthly"))["entitlement_ids"] == ["pro"]


async def test_what_is_archived_there_or_missing_there_is_a_warning_and_is_not_taken_over(market: World) -> None:
    id = add(market, period="P1M")
    await take_over(market, id)
    add(market, period="P1M", price=1.99, on_sale=False)
    await market.client.post(f"/v2/projects/{PROJECT}/products", NOWHERE)
    found = await listed(market)
    assert (found[id]["status"], found[id]["on_sale"], found["nowhere"]["status"]) == ("archived", False, "missing")
    for each in (id, "nowhere", "no_such_thing"):
        assert (await take_over(market, each)).status in (404, 422)
    assert (await product(market, id))["price"] == 9.99


async def test_one_product_that_cannot_be_taken_over_keeps_all_others_out(market: World) -> None:
    id = add(market, period="P1M")
    assert (await take_over(market, id, "no_such_thing")).status == 404
    assert (await listed(market))[id]["status"] == "new"


async def test_pages_are_read_to_the_end(market: World) -> None:
    """Each store pages in its own way: at most 100, 200 or 1,000 in a page; our adapter asks Google for 25."""
    sold = {"kind": "consumable"} if market.store.name == "apple" else {}
    for number in range(230):
        market.store.add_product({"id": f"gems_{number}", "price": 1.99, **sold})
    found = await listed(market)
    assert sum(id.startswith("gems_") and one["status"] == "new" for id, one in found.items()) == 230


async def test_a_store_without_end_is_refused(google: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "MOST_PRODUCTS", 25)
    for number in range(30):
        google.store.add_product({"id": f"gems_{number}", "price": 1.99})
    reply = await google.client.get(path(google.app_id))
    assert (reply.status, reply.json()["type"]) == (422, "store_error")


@pytest.mark.parametrize("fault", ["busy", "error", "down", "truncated"])
async def test_a_store_in_trouble_changes_nothing_and_is_to_be_asked_again(market: World, fault: str) -> None:
    id = add(market, period="P1M")
    market.store.misbehave(api={"kind": fault})
    for reply in (await market.client.get(path(market.app_id)), await take_over(market, id)):
        assert (reply.status, reply.json()["retryable"]) == (503, True), reply
        assert "retry-after" in reply.headers
    market.store.behave()
    assert (await listed(market))[id]["status"] == "new"


async def test_a_slow_store_is_not_waited_for_for_ever(market: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usecases, "READING_SECONDS", 0.05)
    market.store.misbehave(api={"kind": "slow", "seconds": 1})
    reply = await market.client.get(path(market.app_id))
    assert (reply.status, reply.json()["retryable"]) == (503, True)


WRONG: dict[str, dict[str, Any]] = {
    "apple": {"connect_key_id": "AAAAAAAAAA"},
    "google": {"package_name": "com.example.other"},
    "stripe": {"api_key": "rk_test_wrongwrongwrong"},
}


async def test_credentials_that_the_store_refuses_are_named(market: World) -> None:
    wrong = market.store.credentials(market.served.base_url) | WRONG[market.store.name]
    await save(market, wrong)
    reply = await market.client.get(path(market.app_id))
    assert (reply.status, reply.json()["type"]) == (422, "store_error"), reply
    assert next(iter(WRONG[market.store.name])) in reply.json()["message"]
    assert b"wrongwrong" not in reply.body


async def test_the_app_store_needs_a_key_of_another_kind(apple: World) -> None:
    given = apple.store.credentials(apple.served.base_url)
    await save(apple, {name: value for name, value in given.items() if not name.startswith("connect_")})
    reply = await apple.client.get(path(apple.app_id))
    assert (reply.status, reply.json()["type"]) == (422, "store_error")
    assert "connect_key_id" in reply.json()["message"]
    # The in-app purchase key is no such key.
    own = {"connect_key_id": given["key_id"], "connect_private_key": given["private_key"]}
    await save(apple, given | own)
    assert "refuses the key" in (await apple.client.get(path(apple.app_id))).json()["message"]


async def test_the_next_page_is_never_fetched_from_another_host(apple: World) -> None:
    """It would get the token."""

    async def lead_away(request: Any) -> Response:
        body = {"data": [], "links": {"next": "https://attacker.example/v1/apps"}}
        return Response(msgspec.json.encode(body), media_type="application/json")

    async with serving(Starlette(routes=[Route("/{rest:path}", lead_away)])) as url:
        host = url.partition("//")[2]
        apple.connections.allowed_hosts = frozenset({*apple.connections.allowed_hosts, host})
        credentials = apple.connections.parse("app_store", apple.store.credentials(url))
        app = ConnectedApp(PROJECT, apple.app_id, "app_store", credentials=credentials, version=99)
        with pytest.raises(StoreDown, match="another address"):
            await apple.connections.adapters["app_store"].products(app)


async def test_apps_that_cannot_be_asked_say_why(market: World) -> None:
    await new_project(market.database, "proj_other", market.now)
    foreign = await projects.create_app(market.database, "proj_other", "Theirs", "app_store", market.now)
    unconnected = await projects.create_app(market.database, PROJECT, "New", "app_store", market.now)
    tests = await projects.create_app(market.database, PROJECT, "Tests", "test_store", market.now)
    statuses = {}
    for app in (foreign, unconnected, tests):
        reads = await market.client.get(path(app.id))
        writes = await market.client.post(f"{path(app.id)}/actions/take_over", {"product_ids": ["pro_monthly"]})
        assert reads.status == writes.status
        statuses[app.name] = reads.status
    assert statuses == {"Theirs": 404, "New": 422, "Tests": 404}
    assert (await market.client.get(path(foreign.id, "proj_other"))).status in (403, 404)


async def save(world: World, given: dict[str, Any]) -> None:
    place = f"/v2/projects/{PROJECT}/apps/{world.app_id}/credentials"
    reply = await world.client.request("PUT", place, body=msgspec.json.encode(given))
    assert reply.status == 200, reply
