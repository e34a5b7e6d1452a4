"""Projects of a key, their settings, the team, and the audit log over the API."""

import pytest

from latchkey.process.http_application import create_application
from latchkey.settings import Settings
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.accounts.usecases import accounts, team
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.projects import usecases as projects
from tests.http.client import DAY, NOW, Client, Shop
from tests.http.management import get, patch, post, refused, walk


async def test_a_key_lists_its_own_project_and_no_other(shop: Shop) -> None:
    await projects.create_project(shop.database, "Other", NOW)
    page = (await shop.client.get("/v2/projects")).json()
    assert [one["id"] for one in page["items"]] == ["proj_demo"]
    assert (page["url"], page["next_page"]) == ("/v2/projects", None)
    assert page["items"][0] == (await get(shop, "")).json()
    assert (await shop.client.get("/v2/projects?starting_after=proj_demo")).json()["items"] == []
    refused(await shop.client.get("/v2/projects?starting_after=x"), 404, "resource_missing", "starting_after")


async def test_a_new_project_has_a_key_of_its_own_and_the_same_owners(shop: Shop) -> None:
    for email, role in (("owner@example.com", Role.OWNER), ("viewer@example.com", Role.VIEWER)):
        await team.add_member(shop.database, shop.project_id, email, role, NOW)
    reply = await shop.client.post("/v2/projects", {"name": "Second"})
    assert reply.status == 200
    made = reply.json()
    assert len(made["id"]) <= 20
    mine = await shop.client.get(f"/v2/projects/{made['id']}", key=made["api_key"]["key"])
    assert mine.json() == {name: value for name, value in made.items() if name != "api_key"}
    assert (await get(shop, "", key=made["api_key"]["key"])).status == 403
    assert [one.account.email for one in await team.members(shop.database, made["id"])] == ["owner@example.com"]
    [entry, *_] = await audit.entries(shop.database, shop.project_id)
    assert (entry.action, entry.subject, entry.outcome) == ("project.created", made["id"], "done")
    assert made["api_key"]["key"] not in str(entry.detail)


async def test_the_time_zone_is_a_name_of_the_iana_database(shop: Shop) -> None:
    assert (await get(shop, "")).json()["time_zone"] == "UTC"
    assert (await patch(shop, "", {"time_zone": "Europe/Berlin"})).json()["time_zone"] == "Europe/Berlin"
    for wrong in ("", "berlin", "Europe", "..", "/etc/passwd", "+02:00", None, 2):
        refused(await patch(shop, "", {"time_zone": wrong}), 400, "parameter_error", "time_zone")
    assert (await get(shop, "")).json()["time_zone"] == "Europe/Berlin"


async def test_keys_create_no_projects_unless_the_operator_allows_it(shop: Shop) -> None:
    app = create_application(shop.database, Settings(secret_key=bytes(32)), shop.clock)
    client = Client(app, shop.secret)
    before = await projects.list_projects(shop.database)
    refused(await client.post("/v2/projects", {"name": "Second"}), 403, "authorization_error", None)
    assert await projects.list_projects(shop.database) == before
    reader = await keys.create_secret_key(shop.database, shop.project_id, "reads", NOW, scopes=["read"])
    reply = await shop.client.post("/v2/projects", {"name": "Second"}, key=reader.plaintext)
    refused(reply, 403, "authorization_error", None)


async def test_collaborators_are_the_members_in_the_order_they_joined(shop: Shop) -> None:
    invited, _ = await team.add_member(shop.database, shop.project_id, "a@example.com", Role.OWNER, NOW, name="Ann")
    await team.add_member(shop.database, shop.project_id, "b@example.com", Role.VIEWER, NOW + 5)
    account = await accounts.find_account(shop.database, "b@example.com")
    assert account is not None
    await accounts.set_password(shop.database, account.id, "a long enough password", NOW)
    # Ann has begun to set one up, and never entered a code.
    await shop.database.pool.execute(
        "insert into second_factors (account_id, secret_sealed, created_at, confirmed_at)"
        " values ($1, '', 0, 1), ($2, '', 0, null)",
        account.id, invited.id,
    )  # fmt: skip
    items = await walk(shop, "collaborators?limit=1")
    assert items == [
        {
            "object": "collaborator", "id": invited.id, "name": "Ann", "email": "a@example.com", "role": "owner",
            "accepted_at": None, "has_mfa": False,
        },
        {
            "object": "collaborator", "id": account.id, "name": None, "email": "b@example.com", "role": "viewer",
            "accepted_at": NOW + 5, "has_mfa": True,
        },
    ]  # fmt: skip
    refused(await get(shop, "collaborators?starting_after=nobody"), 404, "resource_missing", "starting_after")


async def test_the_audit_log_names_actor_target_and_outcome(shop: Shop) -> None:
    await post(shop, "products", {"id": "gold", "kind": "one_time", "price": 5, "currency": "EUR"})
    who = "someone@example.com"
    for account_id, actor in (("acc_1", who), (None, "command line")):
        await audit.begin(
            shop.database,
            project_id=shop.project_id,
            account_id=account_id,
            actor=actor,
            action="project.changed",
            now=NOW,
        )
    system, user, key = (await get(shop, "audit_logs?limit=3")).json()["items"]
    assert (system["actor_type"], system["actor_identifier"]) == ("system", "command line")
    assert (user["actor_type"], user["actor_identifier"], user["additional_data"]["actor"]) == ("user", "acc_1", who)
    assert (key["action_type"], key["target_type"], key["target_identifier"]) == ("product.created", "product", "gold")
    assert key["actor_type"] == "api_key"
    assert key["actor_identifier"].startswith("key_")
    assert (key["occurred_at"], key["project_id"]) == (NOW, "proj_demo")
    assert key["additional_data"]["outcome"] == "done"
    assert key["additional_data"]["sent"]["id"] == "gold"


async def test_the_audit_log_is_walked_newest_first_within_days(shop: Shop) -> None:
    for number in range(5):
        await patch(shop, "", {"name": f"Name {number}"})
        shop.clock.now += DAY
    sent = [one["additional_data"]["sent"]["name"] for one in await walk(shop, "audit_logs?limit=2")]
    assert sent == [f"Name {number}" for number in (4, 3, 2, 1, 0)]
    # NOW is on 15 January 2027.
    some = await walk(shop, "audit_logs?limit=1&start_date=2027-01-16&end_date=2027-01-17")
    assert [one["additional_data"]["sent"]["name"] for one in some] == ["Name 2", "Name 1"]
    assert await walk(shop, "audit_logs?start_date=2027-01-17&end_date=2027-01-16") == []
    assert (await get(shop, "audit_logs?end_date=9999-12-31")).status == 200


@pytest.mark.parametrize(
    ("query", "status", "param"),
    [
        ("start_date=yesterday", 400, "start_date"),
        ("end_date=2027-02-30", 400, "end_date"),
        ("starting_after=17", 404, "starting_after"),
        ("starting_after=audit_x", 404, "starting_after"),
        (f"starting_after=audit_{'9' * 30}", 404, "starting_after"),
    ],
)
async def test_a_page_of_the_audit_log_that_cannot_be_is_refused(
    steady_shop: Shop, query: str, status: int, param: str
) -> None:
    kind = "parameter_error" if status == 400 else "resource_missing"
    refused(await get(steady_shop, f"audit_logs?{query}"), status, kind, param)


async def test_the_audit_log_of_another_project_is_not_shown(shop: Shop) -> None:
    other = await projects.create_project(shop.database, "Other", NOW)
    await audit.begin(shop.database, project_id=other.id, account_id=None, actor="x", action="project.changed", now=NOW)
    assert await walk(shop, "audit_logs") == []
