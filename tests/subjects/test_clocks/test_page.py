"""Test clocks in the dashboard: the whole story from a new clock to the delivered webhook, and what is refused."""

from typing import Any

from msgspec import json
from playwright.async_api import Page, expect

from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.audit import usecases as audit
from tests.dashboard.asking import somebody
from tests.dashboard.site import Site, Visitor
from tests.dashboard.tab import Fields, tab
from tests.http.client import DAY
from tests.http.doings import advance, clock_with, did, make_clock, types_told

NAME = "<b>Does a trial convert?</b>"


async def press(page: Page, name: str) -> None:
    await page.get_by_role("button", name=name, exact=True).click()


def types(page: Page) -> Any:
    return page.locator(".lately tbody [data-type]")


async def test_the_story_from_a_new_clock_to_the_delivered_webhook(site: Site, developer: Visitor) -> None:
    hook = await site.hook(event_types=["TRIAL_STARTED", "INITIAL_PURCHASE", "RENEWAL", "CANCELLATION", "EXPIRATION"])
    page = await developer.open("/test-clocks")
    await expect(page.get_by_role("heading", name="See a year pass in a minute")).to_be_visible()
    await page.get_by_label("Name").fill(NAME)
    await page.get_by_label("Starts at").fill("2027-01-31T10:00")
    await press(page, "Create clock")
    await expect(page.get_by_role("heading", name=NAME)).to_be_visible()
    await expect(page.locator(".clock .value")).to_have_text("2027-01-31 10:00 UTC")
    await expect(page.get_by_role("button", name="To next renewal")).to_be_disabled()
    await page.get_by_label("New customer").fill("clocked & <i>")
    await press(page, "Put on the clock")
    await page.get_by_label("Product").select_option("pro_monthly")
    await page.get_by_label("Start with the trial").check()
    await press(page, "Buy")
    await expect(page.get_by_role("status").first).to_have_text("Done: TRIAL_STARTED.")
    await expect(page.locator("#counter .held")).to_contain_text("on trial, renews 2027-02-07 10:00 UTC")
    row = page.locator(".lately tbody tr")
    await expect(row).to_have_count(1)
    await expect(row.locator("[data-deliveries]")).to_have_text("delivered")
    await expect(row.locator("[data-customer]")).to_have_text("clocked & <i>")
    await press(page, "To next renewal")
    await expect(page.locator(".clock .value")).to_have_text("2027-02-07 10:00 UTC")
    await expect(types(page)).to_have_text(["INITIAL_PURCHASE", "TRIAL_STARTED"])
    await press(page, "+1 day")
    await expect(page.locator(".clock .value")).to_have_text("2027-02-08 10:00 UTC")
    await expect(page.get_by_text("Nothing happened on the way")).to_be_visible()
    await press(page, "+1 month")
    await expect(types(page)).to_have_text(["RENEWAL", "INITIAL_PURCHASE", "TRIAL_STARTED"])
    await press(page, "Cancel")
    await expect(page.locator("#counter .held")).to_contain_text("ends 2027-04-07 10:00 UTC")
    await page.get_by_text("To a moment…").click()
    await page.get_by_label("Moment").fill("2027-05-01T00:00")
    await press(page, "Move the clock")
    await expect(types(page).first).to_have_text("EXPIRATION")
    await expect(page.locator("#counter .held")).to_contain_text("ended 2027-04-07 10:00 UTC")
    await expect(page.locator(".lately [data-deliveries]")).to_have_text(["delivered"] * 5)
    received = [json.decode(arrival.body)["event"] for arrival in site.arrivals]
    told = [(one["type"], one["event_timestamp_ms"]) for one in received if one["app_user_id"] == "clocked & <i>"]
    start = 1_801_389_600_000
    assert told == [
        ("TRIAL_STARTED", start),
        ("INITIAL_PURCHASE", start + 7 * DAY),
        ("RENEWAL", start + (7 + 28) * DAY),
        ("CANCELLATION", start + (8 + 28) * DAY),
        ("EXPIRATION", start + (7 + 28 + 31) * DAY),
    ]
    await types(page).first.click()
    await expect(page.get_by_role("heading", name="EXPIRATION")).to_be_visible()
    await page.goto(site.path("/test-clocks"))
    await expect(page.locator("tbody tr")).to_contain_text("2027-05-01 00:00 UTC")
    await site.client.request("DELETE", f"/v2/projects/{site.project_id}/integrations/webhooks/{hook['id']}")


async def test_everything_the_test_store_can_do_stands_at_the_counter(site: Site) -> None:
    clock = await clock_with(site, "shopper")
    page = await tab(site, Role.DEVELOPER, f"/test-clocks/{clock}")
    await page.press("Buy", {"Product": "pro_monthly"})
    for button, fields, shown in (
        ("Cancel", {}, ""),
        ("Uncancel", {}, ""),
        ("Issue invoice", {}, ""),
        ("Refund", {}, ""),
        ("Reverse refund", {}, ""),
        ("Renew now", {}, ""),
        ("Payment fails", {"Days of grace": "3"}, "payment failed, access until"),
        ("Payment recovers", {}, ""),
        ("Extend", {"Days": "10"}, ""),
        ("Pause", {"Resumes at": "2028-01-01T00:00"}, "pauses 20"),
        ("Resume", {}, ""),
        ("Change product", {"To": "team_monthly"}, "team_monthly"),
        ("Expire now", {}, "ended 2027-01-15"),
    ):
        await page.press(button, fields)
        assert "Done: " in page.notice, button
        assert shown in page.text("#counter")
    assert await types_told(site, "shopper") == [
        "INITIAL_PURCHASE", "CANCELLATION", "UNCANCELLATION", "INVOICE_ISSUANCE", "REFUND", "REFUND_REVERSED",
        "RENEWAL", "BILLING_ISSUE", "RENEWAL", "SUBSCRIPTION_EXTENDED", "SUBSCRIPTION_PAUSED", "UNCANCELLATION",
        "PRODUCT_CHANGE", "EXPIRATION",
    ]  # fmt: skip
    await page.press("Buy while the store is away")
    assert (await types_told(site, "shopper"))[-1] == "TEMPORARY_ENTITLEMENT_GRANT"


async def test_what_somebody_else_does_arrives_on_the_open_page(site: Site, viewer: Visitor) -> None:
    clock = await clock_with(site, "watched", name="watched")
    page = await viewer.open(f"/test-clocks/{clock}")
    await expect(page.locator(".light.on")).to_be_visible()
    await did(site, "purchase", "not-on-the-clock", "pro_monthly")
    await did(site, "purchase", "watched", "pro_monthly")
    await advance(site, clock, by="P2M")
    await expect(types(page)).to_have_text(["RENEWAL", "RENEWAL", "INITIAL_PURCHASE"])
    await expect(page.get_by_role("button", name="+1 day")).to_have_count(0)
    await expect(page.get_by_role("button", name="Buy")).to_have_count(0)
    await expect(page.get_by_text("Delete this clock…")).to_have_count(0)
    await expect(page.locator("#counter .held")).to_have_count(0)
    await page.reload()
    await expect(page.locator("#counter .held")).to_contain_text("renews")


async def test_what_makes_no_sense_is_said_on_the_same_page_and_changes_nothing(site: Site) -> None:
    clock = await clock_with(site, "refused", name="refusing")
    await did(site, "purchase", "elsewhere", "pro_monthly")
    page = await tab(site, Role.DEVELOPER)
    tried: list[tuple[str, Fields, str]] = [
        ("Put on the clock", {"New customer": "elsewhere"}, "There is a customer 'elsewhere' already."),
        ("Put on the clock", {"New customer": "null"}, "not accepted as an app user id"),
        ("Buy", {"Product": "coins_100", "Start with the trial": True}, "'coins_100' has no trial on offer."),
        ("Move the clock", {"Moment": "2020-01-01T00:00"}, "it only moves forward"),
        ("Delete clock", {"Yes, delete clock": True}, "There are customers on this test clock; delete them first."),
    ]
    for button, fields, alert in tried:
        await page.open(f"/test-clocks/{clock}")
        await page.press(button, fields)
        assert alert in page.alert
    await page.open(f"/test-clocks/{clock}?customer=elsewhere")
    assert page.alert == "There is no customer 'elsewhere' on this clock."
    assert await types_told(site, "elsewhere") == ["INITIAL_PURCHASE"]
    assert await types_told(site, "refused") == []


async def test_the_audit_log_forgets_an_erased_customer_of_a_clock(site: Site) -> None:
    me = await somebody(site, Role.DEVELOPER)
    clock, other = [site.path(f"/test-clocks/{await make_clock(site, name=name)}") for name in ("its", "another")]
    ada = {"customer": "ada", "action": "purchase", "product": "coins_100"}
    posts = (f"{clock}/customers", 303), (f"{clock}/customers", 409), (f"{clock}/act", 303), (f"{other}/act", 404)
    for url, status in posts:
        assert (await me.post(url.removeprefix(site.url), ada)).status == status
    assert (await site.client.request("DELETE", "/v1/subscribers/ada")).status == 200
    entries = await audit.entries(site.database, site.project_id)
    assert [entry.subject for entry in entries[:5]] == ["$deleted"] * 5
    # As a whole text: the random id of a clock may have these letters.
    assert not [entry for entry in entries if "'ada'" in str(entry.detail)]


async def test_a_clock_nobody_lives_on_can_be_deleted(site: Site) -> None:
    page = await tab(site, Role.DEVELOPER, f"/test-clocks/{await make_clock(site, name='short-lived')}")
    await page.press("Delete clock", sure=True)
    assert page.notice == "The clock is deleted."
    assert "short-lived" not in page.text()
