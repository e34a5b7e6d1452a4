"""Experiments in a browser: made, looked at while they fill, and customers put into them."""

from __future__ import annotations

from playwright.async_api import Browser, expect

from latchkey.domain.customers.experiment import Experiment, Variant, assign
from latchkey.domain.team.account import Role
from latchkey.usecases.experiments import experiments
from latchkey.usecases.experiments.enrollments import enroll_customer
from tests.api.doings import types_told
from tests.api.management import get
from tests.dashboard.site import Site, Visitor, serious_findings, visiting

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>\u202egnp.exe'


async def test_an_experiment_is_made_and_a_customer_put_into_it(site: Site, developer: Visitor) -> None:
    page = await developer.open("/experiments/new")
    assert await serious_findings(page) == []
    await page.get_by_label("Name").fill(HOSTILE)
    await page.get_by_label("Variant 2: Id").fill("blue")
    await page.get_by_label("Variant 2: Weight").fill("150")
    await page.get_by_role("button", name="Another variant").click()
    await page.get_by_label("Variant 5: Id").fill("green")
    await page.get_by_label("Variant 5: Weight").fill("0")
    await page.get_by_role("button", name="Begin").click()
    await expect(page.get_by_role("alert")).to_contain_text("Weight 5 is a whole number from 1")
    await page.get_by_label("Variant 5: Weight").fill("50")
    await page.get_by_role("button", name="Begin").click()
    await expect(page.get_by_role("status").first).to_contain_text("The experiment runs")
    await expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    developer.complaints = [words for words in developer.complaints if "400" not in words]

    id = page.url.rpartition("/")[2]
    shown = (await get(site, f"experiments/{id}")).json()
    assert [(one["id"], one["weight"]) for one in shown["variants"]] == [("control", 50), ("blue", 150), ("green", 50)]
    await page.get_by_label("Customer").fill("erna")
    await page.get_by_role("button", name="Enroll").click()
    variants = tuple(Variant(one["id"], one["weight"]) for one in shown["variants"])
    mine = assign(Experiment(id, HOSTILE, variants), "erna")
    await expect(page.get_by_role("status").first).to_contain_text(f"is in {mine}, and stays there")
    await expect(page.get_by_role("row").filter(has_text=mine).locator(".enrolled")).to_have_text("1")
    assert await types_told(site, "erna") == ["EXPERIMENT_ENROLLMENT"]
    assert await serious_findings(page) == []

    await page.goto(site.path("/experiments"))
    await expect(page.get_by_role("link", name=HOSTILE)).to_be_visible()
    assert await serious_findings(page) == []


async def test_an_id_that_nobody_can_have_is_refused_on_the_page(site: Site, developer: Visitor) -> None:
    variants = [Variant("a", 1), Variant("b", 1)]
    made = await experiments.create_experiment(site.database, site.project_id, "Sign", variants, site.clock.now)
    page = await developer.open(f"/experiments/{made.id}")
    await page.get_by_label("Customer").fill("null")
    await page.get_by_role("button", name="Enroll").click()
    await expect(page.get_by_role("alert")).to_contain_text("not accepted as an app user id")
    await expect(page.get_by_label("Customer")).to_have_value("null")
    developer.complaints.clear()


async def test_a_viewer_reads_the_numbers_and_finds_no_button(browser: Browser, site: Site, viewer: Visitor) -> None:
    variants = [Variant("day", 3), Variant("night", 1)]
    made = await experiments.create_experiment(site.database, site.project_id, "Colours", variants, site.clock.now)
    for number in range(40):
        await enroll_customer(site.changes, site.project_id, made.id, f"crowd {number}")
    expected = dict.fromkeys(("day", "night"), 0)
    for number in range(40):
        expected[assign(Experiment(made.id, "Colours", tuple(variants)), f"crowd {number}")] += 1
    page = await viewer.open(f"/experiments/{made.id}")
    for variant, count in expected.items():
        await expect(page.get_by_role("row").filter(has_text=variant).locator(".enrolled")).to_have_text(str(count))
    await expect(page.locator("[data-counted]")).to_contain_text("40 of ")
    results = page.get_by_role("link", name="Results: conversion and revenue")
    assert f"/charts/experiment_results?experiment={made.id}" in str(await results.get_attribute("href"))
    assert await page.locator("main form").count() == 0
    await page.goto(site.path("/experiments"))
    assert await page.locator("main form, main .tools a").count() == 0

    phone = {"width": 390, "height": 800}
    async with visiting(browser, site, Role.DEVELOPER, color_scheme="dark", viewport=phone) as visitor:
        for path in ("/experiments", "/experiments/new", f"/experiments/{made.id}"):
            page = await visitor.open(path)
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            assert await serious_findings(page) == []
