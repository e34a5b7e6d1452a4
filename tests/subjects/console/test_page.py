"""The console's requests: with the rights of the session, and for nobody else."""

import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.accounts.usecases import accounts, sessions, team
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.projects import usecases as projects
from tests.dashboard.asking import Person, known, somebody
from tests.dashboard.site import Site
from tests.http.client import Reply
from tests.http.doings import count_rows

HOUR = 3_600_000


def path(site: Site, below: str = "") -> str:
    return f"/dashboard/projects/{site.project_id}/console{below}"


def v2(site: Site, below: str) -> str:
    return f"/v2/projects/{site.project_id}{below}"


async def read(person: Person, site: Site, target: str, **headers: str) -> Reply:
    return await person.get(path(site, f"?target={quote(target, safe='')}"), **headers)


async def write(
    person: Person, site: Site, target: str, body: Any = None, *, method: str = "POST", confirm: bool = True, **how: str
) -> Reply:
    form = {"method": method, "target": target, "body": json.dumps(body) if body is not None else ""}
    return await person.post(path(site), form | ({"confirm": "on"} if confirm else {}), **how)


async def test_a_member_learns_their_projects_and_the_token_of_their_forms(site: Site) -> None:
    viewer = await somebody(site, Role.VIEWER)
    shown = (await viewer.get("/dashboard/console")).json()
    assert [(one["id"], one["role"]) for one in shown["projects"]] == [(site.project_id, "viewer")]
    assert shown["csrf"]
    # Signed out: to the page that signs in. Another site learns nothing.
    assert (await Person(site).get("/dashboard/console")).status == 303
    assert (await viewer.get("/dashboard/console", **{"sec-fetch-site": "cross-site"})).status == 403


async def test_a_read_gets_what_the_api_says_with_every_status(site: Site) -> None:
    await site.client.post(v2(site, "/customers"), {"id": "console reader"})
    viewer = await somebody(site, Role.VIEWER)
    for target, status in (
        (v2(site, ""), 200),
        (v2(site, "/customers/console%20reader"), 200),
        (v2(site, "/customers/console%20reader/aliases?limit=1"), 200),
        (v2(site, "/customers/nobody-has-this-id"), 404),
        (v2(site, "/customers?limit=0"), 400),
        # Another project's id, also one that exists.
        ("/v2/projects/proj_other/customers", 403),
        ("/v2/projects/proj_other/customers/alice", 403),
    ):
        shown = (await read(viewer, site, target)).json()
        assert shown["status"] == status, (target, shown)
        if status == 200:
            assert shown["body"] == (await site.client.get(target)).body.decode(), target


async def test_what_a_role_may_not_do_is_refused_and_changes_nothing(site: Site) -> None:
    before = await count_rows(site)
    product = {"id": "console_none", "kind": "subscription", "duration": "P1M", "price": 1, "currency": "USD"}
    for role in (Role.VIEWER, Role.SUPPORT):
        person = await somebody(site, role)
        for method, target, body in (
            ("POST", v2(site, "/products"), product),
            ("PATCH", v2(site, ""), {"name": "Mine"}),
            ("POST", v2(site, "/test_store/actions"), {"action": "purchase", "app_user_id": "x", "product_id": "y"}),
            ("POST", v2(site, "/api_keys"), {"name": "mine"}),
            ("DELETE", v2(site, "/customers/alice"), None),
            ("POST", "/v1/subscribers/console-new/attributes", {"attributes": {}}),
        ):
            assert (await write(person, site, target, body, method=method)).status == 403, (role, target)
        assert (await read(person, site, "/v1/subscribers/console-new")).status == 403
    after = await count_rows(site)
    ours = {"accounts", "sessions", "memberships", "audit_entries"}
    assert {name: count for name, count in after.items() if before[name] != count and name not in ours} == {}


async def test_a_read_of_v1_creates_no_customer(site: Site) -> None:
    developer = await somebody(site, Role.DEVELOPER)
    for _ in range(2):
        assert (await read(developer, site, "/v1/subscribers/console-unknown")).json()["status"] == 404
    assert (await site.client.get(v2(site, "/customers/console-unknown"))).status == 404
    # With a key it does.
    assert (await site.client.get("/v1/subscribers/console-unknown")).status == 201
    assert (await read(developer, site, "/v1/subscribers/console-unknown")).json()["status"] == 200


async def test_a_developer_changes_the_catalog_and_the_audit_log_has_their_name(site: Site) -> None:
    developer = await somebody(site, Role.DEVELOPER)
    reply = await write(developer, site, v2(site, "/entitlements"), {"id": "console_pro", "display_name": "Pro"})
    assert (reply.status, reply.json()["status"]) == (200, 201), reply.body
    assert (await site.client.get(v2(site, "/entitlements/console_pro"))).status == 200
    made, used = (await audit.entries(site.database, site.project_id))[:2]
    assert {made.action, used.action} == {"entitlement.created", "console.used"}
    assert {made.actor, used.actor} == {developer.email}
    assert made.account_id == used.account_id is not None
    both = {"request": "POST /v2/projects/{project_id}/entitlements", "status": 201}
    assert both in ({**made.detail}, {**used.detail})


async def test_a_developer_creates_a_key_as_on_the_page(site: Site) -> None:
    developer = await somebody(site, Role.DEVELOPER)
    for more in ({}, {"rate_limit": 2_000}):
        made = await write(developer, site, v2(site, "/api_keys"), {"name": "server", "scopes": ["read"], **more})
        assert made.json()["status"] == 201, made.body


async def test_the_481st_request_of_a_member_in_a_minute_is_429_and_others_do_not_pay_for_it(site: Site) -> None:
    member, other = await somebody(site, Role.SUPPORT), await somebody(site, Role.VIEWER)
    front: Any = site.client.app
    account = await site.account(member.email)
    front.services.console_requests.count(account.id, site.clock.now, 479)
    assert (await read(member, site, v2(site, ""))).status == 200
    for refused in (await read(member, site, v2(site, "")), await write(member, site, v2(site, "/products"), {})):
        assert refused.status == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert (await read(other, site, v2(site, ""))).status == 200


async def test_support_grants_as_on_the_page(site: Site) -> None:
    await site.client.post(v2(site, "/entitlements"), {"id": "console_grant", "display_name": "Grant"})
    await site.client.post(v2(site, "/customers"), {"id": "console_granted"})
    person = await somebody(site, Role.SUPPORT)
    target = v2(site, "/customers/console_granted/actions/grant_entitlement")
    reply = await write(person, site, target, {"entitlement_id": "console_grant"})
    assert reply.json()["status"] in (200, 201), reply.body


@pytest.mark.parametrize("how", ["no token", "another token", "another site", "no box", "a JSON body"])
async def test_a_forged_or_unconfirmed_request_is_refused_before_it_is_sent(site: Site, how: str) -> None:
    developer = await somebody(site, Role.DEVELOPER)
    target, body = v2(site, "/entitlements"), {"id": "console_forged", "display_name": "Forged"}
    if how == "no box":
        reply = await write(developer, site, target, body, confirm=False)
    elif how == "another site":
        reply = await write(developer, site, target, body, origin="https://evil.example")
    elif how == "a JSON body":
        raw = json.dumps({"method": "POST", "target": target, "body": json.dumps(body), "confirm": "on"}).encode()
        reply = await developer.ask("POST", path(site), body=raw, headers={"content-type": "application/json"})
    else:
        token = "" if how == "no token" else (await somebody(site, Role.DEVELOPER)).csrf
        reply = await write(replace(developer, csrf=token), site, target, body)
    assert reply.status in (400, 403, 415)
    assert (await site.client.get(v2(site, "/entitlements/console_forged"))).status == 404


async def test_an_ended_session_and_a_former_member_can_send_nothing(site: Site) -> None:
    email = await site.person(Role.DEVELOPER)
    account = await site.account(email)
    token = await sessions.open_session(site.database, account.id, "127.0.0.1", "a test", site.clock.now)
    person = await known(site, token)
    assert (await read(person, site, v2(site, ""))).status == 200
    await team.remove_member(site.database, site.project_id, account.id)
    assert (await read(person, site, v2(site, ""))).status == 404
    assert (await write(person, site, v2(site, ""), {"name": "Mine"}, method="PATCH")).status == 404
    await sessions.end_session(site.database, token)
    assert (await read(person, site, v2(site, ""))).status == 303
    assert (await write(person, site, v2(site, ""), {"name": "Mine"}, method="PATCH")).status == 401


async def test_a_member_of_another_project_reaches_neither_this_console_nor_this_project(site: Site) -> None:
    other = await projects.create_project(site.database, "Console next door", site.clock.now)
    account = await accounts.create_account(site.database, "console-neighbour@example.com", site.clock.now)
    await team.add_member(site.database, other.id, account.email, Role.OWNER, site.clock.now)
    token = await sessions.open_session(site.database, account.id, "127.0.0.1", "a test", site.clock.now)
    neighbour = await known(site, token)
    assert (await read(neighbour, site, v2(site, ""))).status == 404
    mine = f"/dashboard/projects/{other.id}/console?target={quote(v2(site, ''), safe='')}"
    assert (await neighbour.get(mine)).json()["status"] == 403
    hot = f"/dashboard/projects/{other.id}/console?target={quote(v2(site, '/customers/alice'), safe='')}"
    assert (await neighbour.get(hot)).json()["status"] == 403


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/dashboard/account", 404),
        ("/mcp", 404),
        ("/docs", 404),
        ("/metrics", 404),
        ("/incoming/token", 404),
        ("https://evil.example/v2/projects", 404),
        ("//evil.example/v2/projects", 404),
        ("/v2/projects/%2e%2e", 200),
        ("/v2/projects/x%2Fy", 400),
        ("/v2/projects/%zz", 400),
        ("/v2/projects/é", 404),
    ],
)
async def test_only_operations_of_the_api_can_be_sent(site: Site, target: str, status: int) -> None:
    owner = await somebody(site, Role.OWNER)
    reply = await read(owner, site, target)
    assert reply.status == status, reply.body
    if status == 200:
        assert reply.json()["status"] in (403, 404)


async def test_no_key_is_in_the_pages_or_in_what_the_console_gets(site: Site) -> None:
    owner = await somebody(site, Role.OWNER)
    for reply in (await owner.get("/docs/v2-customers"), await owner.get("/dashboard/console")):
        assert str(site.client.key).encode() not in bytes(reply.body)
    assert b"sk_" not in (await read(owner, site, v2(site, "/api_keys"))).body.replace(b"sk_\xe2\x80\xa6", b"")
