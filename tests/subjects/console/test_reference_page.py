"""The reference of the API in a browser: navigation, search by keyboard, and the console."""

import re

from playwright.async_api import Page, expect

from tests.dashboard.accessibility import serious_findings
from tests.dashboard.site import Site, Visitor

ATTACK = "<img src=x onerror=\"document.title='owned'\">"


async def docs(visitor: Visitor, area: str = "", hash: str = "") -> Page:
    page = await visitor.context.new_page()
    page.on("console", lambda said: visitor.complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: visitor.complaints.append(str(error)))
    await page.goto(f"{visitor.site.url}/docs{area}{hash}")
    return page


async def test_one_finds_an_operation_with_the_keyboard_and_tries_it(viewer: Visitor, site: Site) -> None:
    await site.client.post(f"/v2/projects/{site.project_id}/customers", {"id": ATTACK[:90]})
    page = await docs(viewer)
    await page.keyboard.press("/")
    await page.keyboard.type("customers by id")
    await expect(page.get_by_role("option").first).to_contain_text("customers")
    await page.keyboard.press("Enter")
    await page.wait_for_url(re.compile(r"/docs/v2-customers#get-"))
    operation = page.locator("details.operation[open]")
    await expect(operation).to_contain_text("The project's customers by id")
    await expect(page.locator("#session")).to_contain_text("You are signed in as viewer")
    await expect(operation.locator("input[name=project_id]")).to_have_value(site.project_id)
    await operation.get_by_role("button", name="Send").click()
    await expect(operation.locator(".state")).to_have_text("Status 200")
    # What an app chose as an id is text.
    await expect(operation.locator(".reply")).to_contain_text("<img src=x onerror")
    assert await operation.locator(".reply img").count() == 0
    assert "owned" not in await page.title()
    assert await serious_findings(page) == []


async def test_a_change_needs_the_box_and_the_role(developer: Visitor, site: Site) -> None:
    page = await docs(developer, "/v2-entitlements", "#post-v2-projects-project-id-entitlements")
    operation = page.locator("details.operation[open]")
    await operation.locator("textarea").fill('{"id": "from_docs", "display_name": "From the docs"}')
    await operation.get_by_role("button", name="Send").click()
    # The browser asks for the box; nothing was sent.
    assert (await site.client.get(f"/v2/projects/{site.project_id}/entitlements/from_docs")).status == 404
    await operation.get_by_label("Yes, send it").check()
    await operation.get_by_role("button", name="Send").click()
    await expect(operation.locator(".state")).to_have_text("Status 201")
    assert (await site.client.get(f"/v2/projects/{site.project_id}/entitlements/from_docs")).status == 200
    # Once for each request.
    await expect(operation.get_by_label("Yes, send it")).not_to_be_checked()


async def test_a_refused_role_is_told_so_in_words(viewer: Visitor, site: Site) -> None:
    page = await docs(viewer, "/v2-customers", "#delete-v2-projects-project-id-customers-customer-id")
    operation = page.locator("details.operation[open]")
    await operation.locator("input[name=customer_id]").fill("alice")
    await operation.get_by_label("Yes, send it").check()
    await operation.get_by_role("button", name="Send").click()
    await expect(operation.locator(".state")).to_contain_text("Your role here, viewer, does not allow this")
    # The browser reports the refused request; nothing else.
    assert len(viewer.complaints) == 1
    assert "403" in viewer.complaints.pop()
    assert site.url in page.url


async def test_somebody_without_a_session_signs_in_or_pastes_a_key_that_stays_in_the_page(
    stranger: Visitor, site: Site
) -> None:
    page = await docs(stranger, "/v2-project", "#get-v2-projects-project-id")
    operation = page.locator("details.operation[open]")
    await expect(page.locator("#session")).to_contain_text("Sign in")
    await expect(operation.locator("form.console")).to_be_hidden()
    link = page.locator("#session").get_by_role("link", name="Sign in")
    assert await link.get_attribute("href") == "/dashboard/sign-in?next=%2Fdocs%2Fv2-project"
    key = page.locator("#session input")
    await key.fill("sk_wrong")
    await key.press("Enter")
    await expect(page.locator("#session")).to_contain_text("This key is not known here.")
    assert "401" in stranger.complaints.pop()
    await page.locator("#session input").fill(str(site.client.key))
    await page.get_by_role("button", name="Use this key").click()
    await expect(page.locator("#session")).to_contain_text("the key that you pasted")
    await operation.get_by_role("button", name="Send").click()
    await expect(operation.locator(".state")).to_have_text("Status 200")
    for kept in ("document.documentElement.outerHTML", "JSON.stringify([localStorage, sessionStorage, location.href])"):
        assert str(site.client.key) not in await page.evaluate(kept)
    # Left and opened again, it is gone.
    await page.reload()
    await expect(page.locator("#session")).to_contain_text("Sign in")


async def test_a_session_that_ends_meanwhile_asks_to_sign_in_again(developer: Visitor, site: Site) -> None:
    page = await docs(developer, "/v2-project", "#get-v2-projects-project-id")
    operation = page.locator("details.operation[open]")
    await expect(operation.get_by_role("button", name="Send")).to_be_visible()
    await developer.context.clear_cookies()
    await operation.get_by_role("button", name="Send").click()
    await expect(page.locator("#session")).to_contain_text("You are signed out.")
    assert site.project_id not in await page.locator("#session").inner_text()


async def test_on_a_phone_the_areas_are_folded_and_nothing_is_wider_than_the_screen(viewer: Visitor) -> None:
    for width in (1366, 390):
        page = await viewer.context.new_page()
        await page.set_viewport_size({"width": width, "height": 700})
        await page.goto(f"{viewer.site.url}/docs/v2-customers#post-v2-projects-project-id-customers")
        await expect(page.locator("#session")).to_be_visible()
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        assert await page.locator(".areas").evaluate("one => one.open") == (width > 960)
