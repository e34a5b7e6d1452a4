"""Actions on a customer in a browser: who may do them, that they must be confirmed, and their audit entries."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, Page, expect

from latchkey.domain.team.account import Role
from tests.api.client import DAY
from tests.api.doings import subscriber, types_told
from tests.dashboard.asking import somebody
from tests.dashboard.customer_stories import grant, last_audit, with_a_life
from tests.dashboard.site import Site, Visitor, serious_findings


async def unfold(page: Page, title: str) -> Locator:
    """The form behind this title, opened."""
    fold = page.locator("details.action", has=page.locator("summary", has_text=title)).first
    await fold.locator("summary").click()
    return fold.locator("form")


async def carry_out(form: Locator, button: str) -> None:
    await form.get_by_label("I mean it").check()
    await form.get_by_role("button", name=button, exact=True).click()


async def holds(site: Site, id: str) -> dict[str, str | None]:
    entitlements = (await subscriber(site, id))["entitlements"]
    return {name: one["expires_date"] for name, one in entitlements.items()}


async def test_a_viewer_sees_everything_and_no_button(site: Site, viewer: Visitor) -> None:
    await site.act("purchase", "vera", "pro_monthly")
    await grant(site, "vera")
    page = await viewer.open("/customers/vera")
    await expect(page.locator("details.action")).to_have_count(0)
    await expect(page.get_by_role("heading", name="Actions")).to_have_count(0)
    assert await page.locator("main form[method=post]").count() == 0
    assert await serious_findings(page) == []


async def test_support_grants_extends_and_revokes_and_cannot_refund(site: Site, support: Visitor) -> None:
    await site.act("purchase", "sue", "pro_monthly")
    page = await support.open("/customers/sue")
    titles = await page.locator("details.action summary").all_inner_texts()
    assert titles == ["Grant an entitlement…"]
    form = await unfold(page, "Grant an entitlement")
    await form.get_by_label("Entitlement").select_option("team")
    await form.get_by_label("For how long").select_option("weekly")
    await carry_out(form, "Grant")
    await expect(page.get_by_role("status")).to_have_text("team is granted.")
    assert (await holds(site, "sue"))["team"] == "2027-01-22T08:00:01Z"
    assert await last_audit(site) == (
        "customer.granted", "sue", "done", {"entitlement": "team", "until": "weekly"}
    )  # fmt: skip
    form = await unfold(page, "Extend the grant of team")
    await form.get_by_label("Or until (UTC)").fill("2027-03-01T12:00")
    await carry_out(form, "Extend")
    assert (await holds(site, "sue"))["team"] == "2027-03-01T12:00:00Z"
    form = await unfold(page, "Revoke the grant of team")
    await carry_out(form, "Revoke")
    await expect(page.get_by_role("status")).to_contain_text("Every grant of team is revoked.")
    assert "team" not in await holds(site, "sue")
    assert (await last_audit(site))[:3] == ("customer.grant_revoked", "sue", "done")
    await expect(page.locator(".why", has=page.get_by_role("heading", name="team"))).to_contain_text("was revoked")


@pytest.mark.parametrize("role", [Role.VIEWER, Role.SUPPORT])
async def test_what_a_role_forbids_is_forbidden_without_its_button_too(site: Site, role: Role) -> None:
    id = f"safe_{role}"
    await site.act("purchase", id, "pro_monthly")
    person = await somebody(site, role)
    start = site.path(f"/customers/{id}").removeprefix(site.url)
    before = await holds(site, id)
    forbidden = ["refund", "cancel", "extend", "transfer", "delete"] + (
        ["grant", "revoke"] if role is Role.VIEWER else []
    )
    for action in forbidden:
        form = {"confirm": "yes", "customer_id": id, "entitlement_id": "team", "duration": "daily", "target": "sue"}
        assert (await person.post(f"{start}/{action}", form)).status == 403, action
    assert await holds(site, id) == before


async def test_a_refund_takes_access_away_at_once(site: Site, developer: Visitor) -> None:
    await site.act("purchase", "rita", "pro_monthly")
    await site.act("purchase", "rita", "pro_lifetime")
    page = await developer.open("/customers/rita")
    form = await unfold(page, "Refund pro_lifetime")
    await expect(form).to_contain_text("Gives back $199.99.")
    await carry_out(form, "Refund")
    await expect(page.get_by_role("status")).to_contain_text("Refunded.")
    form = await unfold(page, "Refund pro_monthly")
    await carry_out(form, "Refund")
    await expect(page.locator("details.action", has_text="Refund")).to_have_count(0)
    assert (await types_told(site, "rita")).count("REFUND") == 2
    assert (await holds(site, "rita"))["pro"] == "2027-01-15T08:00:00Z"
    action, subject, outcome, detail = await last_audit(site)
    assert (action, subject, outcome, detail["store"]) == ("customer.refunded", "rita", "done", "test_store")


async def test_a_subscription_is_extended_by_days_or_until_a_moment(site: Site, developer: Visitor) -> None:
    await site.act("purchase", "emil", "pro_monthly")
    page = await developer.open("/customers/emil")
    form = await unfold(page, "Extend pro_monthly")
    await form.get_by_label("Days more").fill("10")
    await carry_out(form, "Extend")
    await expect(page.get_by_role("status")).to_have_text("Extended. It runs until 2027-02-25 08:00 UTC.")
    form = await unfold(page, "Extend pro_monthly")
    await form.get_by_label("Or until (UTC)").fill("2027-06-30T18:30")
    await carry_out(form, "Extend")
    assert (await holds(site, "emil"))["pro"] == "2027-06-30T18:30:00Z"
    # An end that lies before the present one is refused, and the page says why.
    form = await unfold(page, "Extend pro_monthly")
    await form.get_by_label("Or until (UTC)").fill("2027-03-01T00:00")
    await carry_out(form, "Extend")
    await expect(page.get_by_role("alert")).to_contain_text("already runs until 2027-06-30 18:30:00 UTC")
    assert (await last_audit(site))[2] == "refused"
    assert (await holds(site, "emil"))["pro"] == "2027-06-30T18:30:00Z"
    developer.complaints = [words for words in developer.complaints if "status of 422" not in words]


async def test_somebody_on_a_test_clock_is_granted_access_in_their_own_time(site: Site, owner: Visitor) -> None:
    await with_a_life(site, "clocked")
    page = await owner.open("/customers/clocked")
    form = await unfold(page, "Grant an entitlement")
    await form.get_by_label("For how long").select_option("daily")
    await form.get_by_label("Entitlement").select_option("team")
    await carry_out(form, "Grant")
    await expect(page.get_by_role("status")).to_have_text("team is granted.")
    assert (await holds(site, "clocked"))["team"] == "2027-07-20T08:00:01Z"


async def test_a_transfer_gives_everything_to_another_customer(site: Site, developer: Visitor) -> None:
    await site.act("purchase", "from_me", "pro_monthly")
    await site.note(" to me ", city="Lima")
    page = await developer.open("/customers/from_me")
    form = await unfold(page, "Transfer all purchases")
    await form.get_by_label("To the customer with the id").fill("somebody who is not there")
    await carry_out(form, "Transfer")
    await expect(page.get_by_role("alert")).to_contain_text("There is no customer 'somebody who is not there'.")
    assert (await last_audit(site))[2] == "refused"
    form = await unfold(page, "Transfer all purchases")
    await form.get_by_label("To the customer with the id").fill(" to me ")
    await carry_out(form, "Transfer")
    await expect(page.get_by_role("status")).to_have_text("All purchases of 'from_me' are here now.")
    assert (await page.locator("h1").text_content()) == " to me "
    assert await last_audit(site) == ("customer.transferred", "from_me", "done", {"target": " to me "})
    assert await holds(site, "from_me") == {}
    await expect(page.locator(".timeline > li .badge").first).to_have_text("TRANSFER")
    developer.complaints = [words for words in developer.complaints if "status of 404" not in words]


async def test_a_customer_is_deleted_only_by_typing_their_id(site: Site, owner: Visitor) -> None:
    await site.act("purchase", "del@me.example", "pro_monthly")
    page = await owner.open("/customers/del@me.example")
    form = await unfold(page, "Delete this customer")
    await form.get_by_label("Type the id to confirm").fill("del@me")
    await form.get_by_role("button", name="Delete for ever").click()
    await expect(page.get_by_role("alert")).to_contain_text("Type the customer's id")
    assert await holds(site, "del@me.example")
    form = await unfold(page, "Delete this customer")
    await form.get_by_label("Type the id to confirm").fill(" del@me.example ")
    await form.get_by_role("button", name="Delete for ever").click()
    await expect(page.get_by_role("status")).to_contain_text("'del@me.example' is deleted.")
    assert (await last_audit(site))[:3] == ("customer.deleted", "$deleted", "done")
    # The refused attempt before it had the id too; the log no longer has it.
    async with site.database.acquire() as connection:
        left = await connection.fetchval("select count(*) from audit_entries e where e::text like '%del@me%'")
    assert left == 0
    assert (await page.goto(site.path("/customers/del@me.example"))).status == 404  # type: ignore[union-attr]  # a page was opened
    owner.complaints = [words for words in owner.complaints if "status of 40" not in words]


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
