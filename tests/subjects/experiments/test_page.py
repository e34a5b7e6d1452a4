"""Experiments: made, looked at while they fill, and customers put into them."""

from playwright.async_api import expect

from latchkey.domain.customers.enrollment import Experiment, Variant, assign
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.experiments import usecases as experiments
from latchkey.subjects.experiments.usecases import enroll_customer
from tests.dashboard.site import Site, Visitor
from tests.dashboard.tab import tab
from tests.http.doings import types_told
from tests.http.management import get

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>\u202egnp.exe'


async def test_an_experiment_is_made_and_a_customer_put_into_it(site: Site, developer: Visitor) -> None:
    page = await developer.open("/experiments/new")
    await page.get_by_label("Name").fill(HOSTILE)
    await page.get_by_label("Variant 2: Id").fill("blue")
    await page.get_by_label("Variant 2: Weight").fill("150")
    await page.get_by_role("button", name="Another variant").click()
    await page.get_by_label("Variant 5: Id").fill("green")
    await page.get_by_label("Variant 5: Weight").fill("0")
    await page.get_by_role("button", name="Start experiment").click()
    await expect(page.get_by_role("alert")).to_contain_text("Weight 5 is a whole number from 1")
    await page.get_by_label("Variant 5: Weight").fill("50")
    await page.get_by_role("button", name="Start experiment").click()
    await expect(page.get_by_role("status").first).to_contain_text("The experiment runs")
    developer.complaints = [words for words in developer.complaints if "400" not in words]

    id = page.url.rpartition("/")[2]
    shown = (await get(site, f"experiments/{id}")).json()
    assert [(one["id"], one["weight"]) for one in shown["variants"]] == [("control", 50), ("blue", 150), ("green", 50)]
    made = await tab(site, Role.DEVELOPER, f"/experiments/{id}")
    assert made.heading == HOSTILE
    await made.press("Enroll", {"Customer": "null"})
    assert "not accepted as an app user id" in made.alert
    assert made.value("Customer") == "null"
    await made.press("Enroll", {"Customer": "erna"})
    variants = tuple(Variant(one["id"], one["weight"]) for one in shown["variants"])
    mine = assign(Experiment(id, HOSTILE, variants), "erna")
    assert f"is in {mine}, and stays there" in made.notice
    assert await types_told(site, "erna") == ["EXPERIMENT_ENROLLMENT"]
    await made.open("/experiments")
    await made.follow(HOSTILE)
    assert made.heading == HOSTILE


async def test_a_viewer_reads_the_numbers_and_finds_no_button(site: Site) -> None:
    variants = [Variant("day", 3), Variant("night", 1)]
    made = await experiments.create_experiment(site.database, site.project_id, "Colours", variants, site.clock.now)
    expected = dict.fromkeys(("day", "night"), 0)
    for number in range(40):
        await enroll_customer(site.changes, site.project_id, made.id, f"crowd {number}")
        expected[assign(Experiment(made.id, "Colours", tuple(variants)), f"crowd {number}")] += 1
    page = await tab(site, Role.VIEWER, f"/experiments/{made.id}")
    assert page.texts(".enrolled") == [str(count) for count in expected.values()]
    assert "40 of " in page.text("[data-counted]")
    assert page.is_only_read
    [results] = [one["href"] for one in page.soup.select("main a") if "Results" in one.text]
    assert f"/charts/experiment_results?experiment={made.id}" in str(results)
    await page.open("/experiments")
    assert page.is_only_read
