"""Every change made with an API key is in the audit log, by the key's name. New routes are covered automatically."""

import re
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts
from msgspec import json

from latchkey.engine.storage import keys as keys_keys
from latchkey.http.front import Front
from latchkey.process.dashboard_application import EVERY_PAGE
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.audit import rules as audit_rules
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.audit.page import actions
from latchkey.subjects.projects import usecases as projects
from tests.http.client import NOW, Client, Reply, Shop
from tests.http.doings import did, unhurried
from tests.http.management import patch, post
from tests.http.routes import BODIES, LENIENT, Route, routes_of, settle

# Requests that apps and their servers make all the time. Each is visible as an event, a balance or an attribute of its
# customer, and an entry would cost the busiest requests two more writes.
TRAFFIC = {name for name in LENIENT if name.startswith("POST /v1/")} | {
    "POST /test_store/actions",
    "POST /customers/{customer_id}/virtual_currencies/transactions",
    "POST /customers/{customer_id}/virtual_currencies/update_balance",
    "POST /experiments/{experiment_id}/enroll",
    # Changes nothing.
    "POST /config/plan",
}
HOOK = {"name": "mine", "url": "https://93.184.215.14/hook", "authorization_header": "Bearer very s3cret"}


def names_of(shop: Shop) -> dict[str, str | None]:
    """The action in the log for each route that changes something."""
    front = shop.client.app
    assert isinstance(front, Front)
    assert isinstance(front.app, FastAPI)
    found: dict[str, str | None] = {}
    for context in iter_route_contexts(front.app.routes):
        route = context.original_route
        if isinstance(route, APIRoute) and context.path and context.path.startswith(("/v1/", "/v2/")):
            for method in (context.methods or set()) - {"GET", "HEAD"}:
                name = Route(method, context.path, {}).name
                found[name] = getattr(route.endpoint, "audited_as", None)
    return found


async def entries(shop: Shop) -> list[audit_rules.AuditEntry]:
    return await audit.entries(shop.database, shop.project_id, limit=1000)


async def the_key(shop: Shop) -> keys_keys.ApiKey:
    assert shop.client.key is not None
    found = await keys.find_key(shop.database, shop.client.key)
    assert found is not None
    return found


async def test_every_route_that_changes_something_is_in_the_log_or_is_traffic(shop: Shop) -> None:
    names = names_of(shop)
    assert len(names) > 40
    assert {name for name, action in names.items() if action is None} == TRAFFIC
    declared = {page.action for page in EVERY_PAGE} | set(names.values())
    assert declared - {None} <= set(actions()), "the audit page cannot filter by every action"


async def made(shop: Shop) -> dict[str, str]:
    """Create one of everything that a route can change."""
    names = await settle(shop)
    names["webhook_id"] = (await post(shop, "integrations/webhooks", HOOK)).json()["id"]
    app = (await post(shop, "apps", {"name": "App", "store": "test_store"})).json()
    await projects.create_app(shop.database, shop.project_id, "Web", "stripe", NOW, app_id="app_web")
    secret = (await post(shop, "api_keys", {"name": "other", "scopes": ["read"]})).json()
    names |= {"app_id": app["id"], "key_id": secret["id"], "public_key_id": app["public_api_key"]["id"]}
    events = (await shop.client.get(f"/v2/projects/{shop.project_id}/events")).json()["items"]
    return {**names, "delivery_id": events[0]["id"]}


async def ask(shop: Shop, route: Route, names: dict[str, str], body: Any) -> Reply:
    if "public_api_keys/{key_id}" in route.template:
        names = {**names, "key_id": names["public_key_id"]}
    return await shop.client.request(route.method, route.path(names), body=json.encode(body) if body else b"")


async def test_each_of_them_writes_one_entry_that_names_the_key(shop: Shop) -> None:
    await unhurried(shop)
    key = await the_key(shop)
    names, known = await made(shop), names_of(shop)
    # Deletions come last, and those of the customer and the app at the very end.
    order = sorted(routes_of(shop), key=lambda one: (one.method == "DELETE", -len(one.template)))
    # A configuration that is applied has an entry for each of its changes too; tests/subjects/configuration has them.
    for route in [one for one in order if known.get(one.name) and one.name != "POST /config/apply"]:
        before = await entries(shop)
        body = HOOK if route.name == "POST /integrations/webhooks" else BODIES.get(route.name)
        reply = await ask(shop, route, names, body)
        after = await entries(shop)
        assert len(after) == len(before) + 1, (route.name, reply)
        entry = after[0]
        assert (entry.actor, entry.action) == (f"API key {key.name} ({key.id})", known[route.name]), route.name
        assert entry.outcome == ("done" if reply.status < 400 else "refused"), (route.name, reply)
        assert (entry.address, entry.account_id, entry.at) == ("127.0.0.1", None, NOW)
        assert entry.detail["request_id"] == reply.headers["x-request-id"]
        if route.template != "/v2/projects/{project_id}":
            assert entry.subject, route.name
    shown = json.encode([dict(entry.detail) for entry in await entries(shop)]).decode()
    assert "very s3cret" not in shown
    assert "whsec_" not in shown
    assert not re.search(r"(sk|test|appl)_[A-Za-z0-9]{32}", shown), "an API key is in the log"


async def test_an_entry_says_what_was_sent_and_what_was_made(shop: Shop) -> None:
    await post(shop, "products", {"id": "gold", "kind": "one_time", "price": 5, "currency": "EUR"})
    await patch(shop, "", {"restore_behavior": "keep"})
    webhook = (await post(shop, "integrations/webhooks", HOOK)).json()
    hook, project, product = (await entries(shop))[:3]
    assert (product.subject, product.action) == ("gold", "product.created")
    assert product.detail["sent"] == {"id": "gold", "kind": "one_time", "price": 5, "currency": "EUR"}
    assert project.detail["sent"] == {"restore_behavior": "keep"}
    assert hook.subject == webhook["id"]
    assert hook.detail["sent"]["authorization_header"] == "***"


async def test_behind_a_proxy_an_entry_has_the_address_that_the_proxy_saw(shop: Shop) -> None:
    async def recorded_address(headers: dict[str, str]) -> str | None:
        path = f"/v2/projects/{shop.project_id}/entitlements"
        assert (await shop.client.post(path, {"id": f"e{len(await entries(shop))}"}, headers=headers)).status == 201
        return (await entries(shop))[0].address

    # What the client wrote itself comes first; the proxy appends what it saw.
    forwarded = {"x-forwarded-for": "203.0.113.9, 198.51.100.7"}
    assert await recorded_address(forwarded) == "127.0.0.1"
    front: Any = shop.client.app
    front.services.behind_proxy = True
    assert await recorded_address(forwarded) == "198.51.100.7"
    assert await recorded_address({}) == "127.0.0.1"


async def test_what_is_refused_by_a_rule_is_in_the_log_with_the_reason(shop: Shop) -> None:
    reply = await shop.client.request("DELETE", f"/v2/projects/{shop.project_id}/entitlements/pro")
    assert reply.status == 409
    entry = (await entries(shop))[0]
    assert (entry.action, entry.subject, entry.outcome) == ("entitlement.deleted", "pro", "refused")
    assert entry.detail["refusal"] == reply.json()["message"]


async def test_the_log_forgets_an_erased_customer_and_keeps_what_was_done(shop: Shop) -> None:
    await post(shop, "customers", {"id": "ada"})
    await post(shop, "customers", {"id": "adam"})
    await post(shop, "customers/ada/actions/grant_entitlement", {"entitlement_id": "pro"})
    await shop.client.post("/v1/subscribers/ada/entitlements/team/promotional", {"duration": "daily"})
    await did(shop, "purchase", "adam", "pro_lifetime")
    await post(shop, "customers/adam/actions/transfer", {"target_customer_id": "ada"})
    assert (await shop.client.request("DELETE", "/v1/subscribers/ada")).status == 200
    found = [(entry.action, entry.subject) for entry in reversed(await entries(shop))]
    assert found == [
        ("customer.created", "$deleted"),
        ("customer.created", "adam"),
        ("customer.granted", "$deleted"),
        ("customer.granted", "$deleted"),
        ("customer.transferred", "$deleted"),
        ("customer.deleted", "$deleted"),
    ]
    assert '"ada"' not in json.encode([dict(entry.detail) for entry in await entries(shop)]).decode()


@pytest.mark.parametrize("id", ["a.*|[b]", 'an "a", b', "back\\", '\\"both\\\\', "100%_é", "a, b, c"])
async def test_whatever_an_id_is_made_of_the_log_forgets_exactly_it(shop: Shop, id: str) -> None:
    near = [f"{id}.", f".{id}", id[:-1], id.partition(",")[0] + "-"]
    for one in (id, *near):
        await post(shop, "customers", {"id": one})
        await post(shop, f"customers/{quote(one)}/actions/grant_entitlement", {"entitlement_id": "pro"})
    assert (await shop.client.request("DELETE", f"/v1/subscribers/{quote(id)}")).status == 200
    found = list(reversed(await entries(shop)))
    named = [name for one in near for name in (one, one)]
    assert [entry.subject for entry in found] == ["$deleted"] * 2 + named + ["$deleted"]
    assert [entry.detail["sent"]["id"] for entry in found[2:-1:2]] == near
    assert not any(entry.detail for entry in found[:2])


async def test_the_log_forgets_a_person_of_a_thousand_ids_in_one_go(shop: Shop) -> None:
    ids = [f"$RCAnonymousID:{number:032x}" for number in range(1_000)]
    for number in (0, 500, 999):
        position = await audit.begin(
            shop.database, project_id=shop.project_id, account_id=None, actor="x", action="x", now=NOW, subject="x"
        )
        await audit.finish(shop.database, position, "done", "x", {"a": [{"b": ids[number]}]})
    async with shop.database.transaction(hot=True) as connection:
        await audit.forget(connection, shop.project_id, ids, "$deleted")
        assert await connection.fetchval("show statement_timeout") == "0"
    assert [(entry.subject, entry.detail) for entry in await entries(shop)] == [("$deleted", {})] * 3


async def test_a_change_that_was_under_way_at_an_erasure_does_not_name_the_person(shop: Shop) -> None:
    async def begun(subject: str) -> int:
        return await audit.begin(
            shop.database, project_id=shop.project_id, account_id=None, actor="x", action="x", now=NOW, subject=subject
        )

    under_way, other = await begun("ada"), await begun("x")
    async with shop.database.transaction(hot=True) as connection:
        read_until = await audit.forget(connection, shop.project_id, ["ada"], "$deleted")
    await audit.finish(shop.database, under_way, "refused", "ada", {"refusal": "There is no customer 'ada'."})
    await audit.finish(shop.database, other, "done", "x", {"id": "ada"})
    async with shop.database.transaction(hot=True) as connection:
        await audit.forget(connection, shop.project_id, ["ada"], "$deleted", after=read_until)
    found = [(entry.subject, entry.detail, entry.outcome) for entry in await entries(shop)]
    assert found == [("$deleted", {}, "done"), ("$deleted", {}, "refused")]


async def test_what_could_change_nothing_is_not_in_the_log(shop: Shop) -> None:
    reader = await keys.create_secret_key(shop.database, shop.project_id, "reads", NOW, scopes=frozenset({"read"}))
    path = f"/v2/projects/{shop.project_id}/products"
    before = await entries(shop)
    good = {"id": "gold", "kind": "one_time", "price": 5, "currency": "EUR"}
    client: Client = shop.client
    assert (await client.post(path, good, key="sk_nobody")).status == 401
    assert (await client.post(path, good, key=shop.public)).status == 403
    assert (await client.post(path, good, key=reader.plaintext)).status == 403
    assert (await client.post(path, {**good, "price": "5"})).status == 400
    assert (await client.post(path, body=b"{")).status == 400
    assert (await client.get(path)).status == 200
    await did(shop, "purchase", "ada", "pro_monthly")
    assert await entries(shop) == before


async def test_a_change_whose_entry_cannot_be_finished_is_answered_all_the_same(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(audit, "finish", broken)
    assert (await post(shop, "entitlements", {"id": "gold"})).status == 201
    entry = (await entries(shop))[0]
    assert (entry.action, entry.outcome) == ("entitlement.created", "begun")


async def test_a_password_in_a_refused_url_is_not_kept(shop: Shop) -> None:
    hook = {"name": "mine", "url": "https://somebody:hunter2@example.com/hook"}
    assert (await post(shop, "integrations/webhooks", hook)).status == 400
    [entry] = await entries(shop)
    assert entry.outcome == "refused"
    assert "hunter2" not in str(entry.detail)
