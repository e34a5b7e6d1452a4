"""The door: who gets in, who does not, and what happens to those who keep trying."""

from __future__ import annotations

from playwright.async_api import expect

from latchkey.dashboard.cookie import NAME, safe_next
from latchkey.domain.account import Role
from tests.dashboard.site import PASSWORD, Site, Visitor, serious_findings


async def test_somebody_signs_in_looks_around_and_signs_out(site: Site, stranger: Visitor) -> None:
    email = await site.person(Role.DEVELOPER, password=PASSWORD)
    page = await stranger.open("/settings")
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert await serious_findings(page) == []
    await page.get_by_label("E-mail").fill(email.upper())
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(site.path("/settings"))
    [cookie] = [one for one in await stranger.context.cookies() if one["name"] == NAME]
    assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Lax")
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    await page.goto(site.path("/settings"))
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_an_open_redirect_is_no_way_out_of_the_sign_in() -> None:
    assert safe_next("/dashboard/projects/p?x=1") == "/dashboard/projects/p?x=1"
    for bad in (
        "",
        "//evil.example",
        "https://evil.example",
        "/dashboard//evil",
        "/dashboard\\evil",
        "/dashboardx",
        "/v2",
    ):
        assert safe_next(bad) == "/dashboard"
