"""API keys and apps: a key is shown once, works, is masked after, and stops when it is revoked."""

import re
from datetime import UTC, datetime

from playwright.async_api import expect

from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.projects import usecases as projects
from tests.dashboard.asking import somebody
from tests.dashboard.site import Site, Visitor, serious_findings
from tests.dashboard.tab import Tab, tab
from tests.http.client import Client
from tests.http.management import get

HOSTILE = "<img src=x onerror=alert(1)> key \u202egnp.exe"


def shown_key(page: Tab, prefix: str) -> str:
    assert page.heading == "Your new key"
    assert ("You will not see it again" if prefix == "sk_" else "It is no secret") in page.notice
    plaintext = page.text(".snippet code")
    assert re.fullmatch(prefix + "[A-Za-z0-9]{32}", plaintext)
    return plaintext


async def test_a_secret_key_is_shown_once_works_is_masked_and_stops_when_revoked(site: Site) -> None:
    page = await tab(site, Role.OWNER, "/keys/new")
    await page.press("Create key", {"Name": HOSTILE, "write": False, "Requests a minute": "77"})
    plaintext = shown_key(page, "sk_")
    path = f"/v2/projects/{site.project_id}/products"
    client = Client(site.client.app, plaintext)
    reply = await client.get(path)
    assert (reply.status, (await client.post(path, {})).status) == (200, 403)
    await page.follow("I have it")
    hint = f"sk_…{plaintext[-4:]}"
    assert HOSTILE in page.row(hint)
    [row] = [one for one in page.soup.select("tbody tr") if hint in one.text]
    assert [one.text for one in row.select("td")[2:4]] == ["read", "77"]
    assert plaintext not in page.html
    await page.press("Revoke", within=hint, sure=True)
    assert "revoked" in page.row(hint)
    assert (await client.get(path)).status == 401
    await page.open("/audit")
    assert plaintext not in page.html


async def test_a_new_key_is_copied_by_a_button(owner: Visitor) -> None:
    await owner.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = await owner.open("/keys/new")
    await page.get_by_label("Name").fill("copied")
    await page.get_by_role("button", name="Create key").click()
    await page.locator(".snippet").first.get_by_role("button", name="Copy").click()
    await expect(page.get_by_role("button", name="Copied")).to_be_visible()
    plaintext = await page.locator(".snippet code").first.inner_text()
    assert await page.evaluate("navigator.clipboard.readText()") == plaintext
    assert await serious_findings(page) == []


async def test_a_key_with_rules_is_made_changed_and_replaced(site: Site) -> None:
    page = await tab(site, Role.OWNER, "/keys/new")
    where = "Works only from these addresses"
    await page.press("Create key", {"Name": "bound", "V2 replies": "vendor", where: "203.0.113.7, nowhere"})
    assert "'nowhere' is not an address or a network" in page.alert
    tomorrow = datetime.fromtimestamp(site.clock.now / 1000 + 86_400, UTC).date().isoformat()
    await page.press("Create key", {"Works until the end of": tomorrow, where: "203.0.113.7\n2001:db8::/32"})
    old = shown_key(page, "sk_")
    assert "It works only from 203.0.113.7/32, 2001:db8::/32." in page.text()
    path = f"/v2/projects/{site.project_id}/products"
    inside, outside = (Client(site.client.app, old, address=one) for one in ("203.0.113.7", "127.0.0.1"))
    assert [(await client.get(path)).status for client in (inside, outside)] == [200, 403]
    assert b"project_id" not in (await inside.get(path)).body

    await page.follow("I have it")
    hint = f"sk_…{old[-4:]}"
    for words in ("expires soon", "only from 203.0.113.7/32", "replies as"):
        assert words in page.row(hint)
    await page.follow(f"Change or replace {hint}")
    assert page.value("Works until the end of") == tomorrow
    await page.press("Save", {where: "127.0.0.0/8"})
    assert "is changed, from the next request on" in page.notice
    assert [(await client.get(path)).status for client in (inside, outside)] == [403, 200]

    await page.follow(f"Change or replace {hint}")
    await page.press("Create new key", {"Days that the old key still works": "0"}, sure=True)
    new = shown_key(page, "sk_")
    assert "no longer works." in page.text()
    assert [(await Client(site.client.app, key).get(path)).status for key in (old, new)] == [401, 200]
    await page.open("/keys")
    assert "expired" in page.row(hint)
    await page.open("/audit")
    for action in ("Key created", "Key changed", "Key rotated"):
        assert action in page.text("table")
    assert new not in page.html


async def test_a_key_that_may_nothing_is_refused_and_the_form_stays_filled(site: Site) -> None:
    page = await tab(site, Role.DEVELOPER, "/keys/new")
    await page.press("Create key", {"Name": "mine", "read": False, "write": False})
    assert "Scopes are some of read, write" in page.alert
    assert page.value("Name") == "mine"


async def test_an_app_is_made_with_its_key_gets_another_loses_one_and_goes(site: Site) -> None:
    page = await tab(site, Role.DEVELOPER, "/apps/new")
    await page.press("Create app", {"Name": HOSTILE, "Store": "play_store"})
    first = shown_key(page, "goog_")
    await page.follow("I have it")
    assert page.heading == HOSTILE
    app_id = page.path.rpartition("/")[2]
    assert (await projects.load_app(site.database, site.project_id, app_id)).store == "play_store"

    await page.press("Create public key", {"Name": "a second"})
    second = shown_key(page, "goog_")
    one, two = (Client(site.client.app, plaintext) for plaintext in (first, second))
    assert [(await client.get("/v1/subscribers/ina")).status in {200, 201} for client in (one, two)] == [True, True]
    await page.follow("I have it")
    assert first not in page.html
    await page.press("Revoke", within=f"goog_…{first[-4:]}", sure=True)
    assert "revoked" in page.row(f"goog_…{first[-4:]}")
    assert (await one.get("/v1/subscribers/ina")).status == 401

    await page.press("Delete app", sure=True)
    assert "The app and its keys are deleted" in page.notice
    assert (await two.get("/v1/subscribers/ina")).status == 401
    assert (await get(site, f"apps/{app_id}")).status == 404


async def test_a_key_of_another_kind_or_app_is_not_revoked_from_the_wrong_page(site: Site) -> None:
    app = await projects.create_app(site.database, site.project_id, "Other", "test_store", site.clock.now)
    public = await keys.create_public_key(site.database, site.project_id, app.id, "Other", site.clock.now)
    secret = await keys.create_secret_key(site.database, site.project_id, "Server", site.clock.now)
    me = await somebody(site, Role.OWNER)
    for path in (
        f"keys/{public.key.id}/revoke",
        f"apps/app_demo/keys/{public.key.id}/revoke",
        f"apps/app_demo/keys/{secret.key.id}/revoke",
    ):
        reply = await me.post(f"/dashboard/projects/{site.project_id}/{path}", {"confirm": "yes"})
        assert reply.status == 404
    for issued in (public, secret):
        assert await keys.find_key(site.database, issued.plaintext) is not None
