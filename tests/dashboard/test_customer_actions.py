"""Actions on a customer as pages: who may do them, that they must be confirmed, and their audit entries."""

from __future__ import annotations

from latchkey.domain.team.account import Role
from tests.api.client import DAY
from tests.api.doings import subscriber, types_told
from tests.dashboard.asking import somebody
from tests.dashboard.customer_stories import grant, last_audit, with_a_life
from tests.dashboard.site import Site
from tests.dashboard.tab import tab


async def holds(site: Site, id: str) -> dict[str, str | None]:
    entitlements = (await subscriber(site, id))["entitlements"]
    return {name: one["expires_date"] for name, one in entitlements.items()}


async def test_support_grants_extends_and_revokes_and_cannot_refund(site: Site) -> None:
    await site.act("purchase", "sue", "pro_monthly")
    page = await tab(site, Role.SUPPORT, "/customers/sue")
    assert page.texts("details.action summary") == ["Grant an entitlement…"]
    await page.press("Grant", {"Entitlement": "team", "For how long": "weekly"}, sure=True)
    assert page.notice == "team is granted."
    assert (await holds(site, "sue"))["team"] == "2027-01-22T08:00:01Z"
    assert await last_audit(site) == (
        "customer.granted", "sue", "done", {"entitlement": "team", "until": "weekly"}
    )  # fmt: skip
    until = {"Or until (UTC)": "2027-03-01T12:00"}
    await page.press("Extend", until, within="Extend the grant of team", sure=True)
    assert (await holds(site, "sue"))["team"] == "2027-03-01T12:00:00Z"
    await page.press("Revoke", within="Revoke the grant of team", sure=True)
    assert "Every grant of team is revoked." in page.notice
    assert "team" not in await holds(site, "sue")
    assert (await last_audit(site))[:3] == ("customer.grant_revoked", "sue", "done")
    assert any("team" in words and "was revoked" in words for words in page.texts(".why"))


async def test_a_refund_takes_access_away_at_once(site: Site) -> None:
    await site.act("purchase", "rita", "pro_monthly")
    await site.act("purchase", "rita", "pro_lifetime")
    page = await tab(site, Role.DEVELOPER, "/customers/rita")
    assert "Gives back $199.99." in page.text()
    await page.press("Refund", within="Refund pro_lifetime", sure=True)
    assert "Refunded." in page.notice
    await page.press("Refund", within="Refund pro_monthly", sure=True)
    assert not [words for words in page.texts("details.action") if "Refund" in words]
    assert (await types_told(site, "rita")).count("REFUND") == 2
    assert (await holds(site, "rita"))["pro"] == "2027-01-15T08:00:00Z"
    action, subject, outcome, detail = await last_audit(site)
    assert (action, subject, outcome, detail["store"]) == ("customer.refunded", "rita", "done", "test_store")


async def test_a_subscription_is_extended_by_days_or_until_a_moment(site: Site) -> None:
    await site.act("purchase", "emil", "pro_monthly")
    page = await tab(site, Role.DEVELOPER, "/customers/emil")
    await page.press("Extend", {"Days more": "10"}, sure=True)
    assert page.notice == "Extended. It runs until 2027-02-25 08:00 UTC."
    await page.press("Extend", {"Or until (UTC)": "2027-06-30T18:30"}, sure=True)
    assert (await holds(site, "emil"))["pro"] == "2027-06-30T18:30:00Z"
    # An end that lies before the present one is refused, and the page says why.
    await page.press("Extend", {"Or until (UTC)": "2027-03-01T00:00"}, sure=True)
    assert "already runs until 2027-06-30 18:30:00 UTC" in page.alert
    assert (await last_audit(site))[2] == "refused"
    assert (await holds(site, "emil"))["pro"] == "2027-06-30T18:30:00Z"


async def test_somebody_on_a_test_clock_is_granted_access_in_their_own_time(site: Site) -> None:
    await with_a_life(site, "clocked")
    page = await tab(site, Role.OWNER, "/customers/clocked")
    await page.press("Grant", {"For how long": "daily", "Entitlement": "team"}, sure=True)
    assert page.notice == "team is granted."
    assert (await holds(site, "clocked"))["team"] == "2027-07-20T08:00:01Z"


async def test_a_transfer_gives_everything_to_another_customer(site: Site) -> None:
    await site.act("purchase", "from_me", "pro_monthly")
    await site.note(" to me ", city="Lima")
    page = await tab(site, Role.DEVELOPER, "/customers/from_me")
    await page.press("Transfer", {"To the customer with the id": "somebody who is not there"}, sure=True)
    assert page.alert == "There is no customer 'somebody who is not there'."
    assert (await last_audit(site))[2] == "refused"
    await page.press("Transfer", {"To the customer with the id": " to me "}, sure=True)
    assert page.notice == "All purchases of 'from_me' are here now."
    assert page.soup.select("h1 bdi")[0].text == " to me "
    assert await last_audit(site) == ("customer.transferred", "from_me", "done", {"target": " to me "})
    assert await holds(site, "from_me") == {}
    assert page.text(".timeline > li .badge") == "TRANSFER"


async def test_a_customer_is_deleted_only_by_typing_their_id(site: Site) -> None:
    await site.act("purchase", "del@me.example", "pro_monthly")
    page = await tab(site, Role.OWNER, "/customers/del@me.example")
    await page.press("Delete for ever", {"Type the id to confirm": "del@me"})
    assert "Type the customer's id" in page.alert
    assert await holds(site, "del@me.example")
    await page.press("Delete for ever", {"Type the id to confirm": " del@me.example "})
    assert "'del@me.example' is deleted." in page.notice
    assert (await last_audit(site))[:3] == ("customer.deleted", "$deleted", "done")
    # The refused attempt before it had the id too; the log no longer has it.
    async with site.database.acquire() as connection:
        left = await connection.fetchval("select count(*) from audit_entries e where e::text like '%del@me%'")
    assert left == 0
    assert (await page.open("/customers/del@me.example")).status == 404


async def test_nothing_happens_by_a_slip_or_by_nonsense(site: Site) -> None:
    await site.act("purchase", "calm", "pro_monthly")
    await grant(site, "calm", "team", site.clock.now + DAY)
    before, told = await holds(site, "calm"), await types_told(site, "calm")
    person = await somebody(site, Role.OWNER)
    start = site.path("/customers/calm").removeprefix(site.url)
    sub = {"store": "test_store", "purchase_id": "none of theirs"}
    wrong: list[tuple[str, dict[str, str], int]] = [
        ("grant", {"entitlement_id": "team", "duration": "daily"}, 400),
        ("grant", {"confirm": "y", "duration": "daily"}, 400),
        ("grant", {"confirm": "y", "entitlement_id": "team"}, 400),
        ("grant", {"confirm": "y", "entitlement_id": "team", "duration": "eternal"}, 400),
        ("grant", {"confirm": "y", "entitlement_id": "nothing", "duration": "daily"}, 404),
        ("grant", {"confirm": "y", "entitlement_id": "team", "until": "2020-01-01T00:00"}, 422),
        ("grant", {"confirm": "y", "entitlement_id": "team", "until": "9999-12-31T23:59"}, 400),
        ("grant", {"confirm": "y", "entitlement_id": "team", "until": "0001-01-01"}, 400),
        ("grant", {"confirm": "y", "entitlement_id": "team", "until": "tomorrow"}, 400),
        ("revoke", {"entitlement_id": "team"}, 400),
        ("refund", {"store": "test_store", "purchase_id": "x"}, 400),
        ("refund", {"confirm": "y", **sub}, 422),
        ("cancel", {"confirm": "y", **sub}, 422),
        ("extend", {"confirm": "y", **sub, "days": "1"}, 422),
        ("extend", {"confirm": "y", **sub, "days": "0"}, 400),
        ("extend", {"confirm": "y", **sub, "days": "1000000"}, 400),
        ("transfer", {"confirm": "y", "target": "  "}, 400),
        ("transfer", {"confirm": "y", "target": "calm"}, 422),
        ("delete", {"customer_id": ""}, 400),
        ("delete", {"customer_id": "Calm"}, 400),
    ]
    for action, form, status in wrong:
        reply = await person.post(f"{start}/{action}", form)
        assert reply.status == status, (action, form, reply)
        assert (await last_audit(site))[2] == "refused", (action, form)
    for action in ("grant", "revoke", "refund", "extend", "transfer", "delete"):
        nobody = start.replace("calm", "nobody-here")
        assert (await person.post(f"{nobody}/{action}", {"confirm": "y"})).status == 404
    assert (await holds(site, "calm"), await types_told(site, "calm")) == (before, told)
