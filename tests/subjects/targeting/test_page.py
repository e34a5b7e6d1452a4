"""Targeting in the dashboard: rules are made, ordered, switched and explained."""

from latchkey.subjects.accounts.rules import Role
from tests.dashboard.site import Site
from tests.dashboard.tab import tab
from tests.http.management import get, post

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>\u202egnp.exe'


async def test_a_rule_is_made_moved_switched_off_explained_and_deleted(site: Site) -> None:
    page = await tab(site, Role.DEVELOPER, "/catalog/targeting")
    assert "No rules yet" in page.text()
    await page.follow("New rule")
    wrong = {"Country": "Germany", "App version from": "new", "Attribute": "plan=gold"}
    await page.press("Create rule", {"Name": HOSTILE, "Shows": "team", **wrong})
    assert [words[:20] for words in page.texts(".wrong")] == ["A country has two le", "A version begins wit"]
    assert (page.value("Name"), page.value("Attribute")) == (HOSTILE, "plan=gold")
    await page.press("Create rule", {"Country": "de, at", "App version from": "", "Trial": True, "Active": True})
    assert "The rule is number 1" in page.notice
    assert "Active or Trial; Country: AT or DE; plan is gold" in page.row(HOSTILE[:20])

    await page.follow("New rule")
    await page.press("Create rule", {"Name": "Everybody", "Shows": "coins"})
    await page.press("Move Everybody up")
    assert "Everybody is number 1 now" in page.notice
    rules = (await get(site, "targeting_rules")).json()["items"]
    assert [(one["name"], one["offering_id"]) for one in rules] == [
        ("Everybody", "ofrng_demo_coins"),
        (HOSTILE, "ofrng_demo_team"),
    ]
    assert rules[1]["conditions"] == {"status": "active,trial", "country": "AT,DE", "attribute": "plan=gold"}
    shown = await site.client.get("/v1/subscribers/ada/offerings", key=site.public)
    assert shown.json()["current_offering_id"] == "coins"
    await page.press("Switch Everybody off")
    assert "Everybody is switched off" in page.notice

    await site.note("ada", plan="silver")
    await page.press("Explain", {"Customer": "ada"})
    assert "ada sees default, the current offering" in page.text()
    assert "Everybody: switched off" in page.text()
    assert "does not match (Active or Trial; Country: AT or DE; plan is gold)" in page.text()

    await page.open(f"/catalog/targeting/{rules[1]['id']}")
    assert page.value("Country") == "AT,DE"
    await page.press(
        "Save", {"Name": "Gold", "Country": "", "Active": False, "Trial": False, "Attribute": "plan=silver"}
    )
    assert "Saved" in page.notice
    await page.press("Explain", {"Customer": "ada"})
    assert "ada sees team by the rule Gold" in page.text()
    await page.follow("Gold")
    await page.press("Delete rule", sure=True)
    assert "The rule is deleted" in page.notice


async def test_somebody_who_does_not_exist_is_named_and_a_viewer_changes_nothing(site: Site) -> None:
    made = (await post(site, "targeting_rules", {"name": "All", "offering_id": "ofrng_demo_team"})).json()
    page = await tab(site, Role.VIEWER, "/catalog/targeting?customer=nobody")
    assert "There is no customer 'nobody'" in page.text()
    assert "Switch" not in page.text()
    await page.open(f"/catalog/targeting/{made['id']}")
    assert "everybody" in page.text()
    assert "Save" not in page.text()
