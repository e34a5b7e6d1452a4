"""Exports in a browser: set up, run, failed in plain words, downloaded, deleted; the secret is never shown."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from latchkey.delivery.sealing import Sealer
from latchkey.domain.team.account import Role
from latchkey.usecases.exports import download
from latchkey.usecases.exports.runner import run_next
from latchkey.usecases.exports.schedules import Exports
from tests.api.management import get
from tests.api.receiving import SECRET_KEY
from tests.dashboard.site import Site, Visitor, serious_findings, visiting

HOSTILE = "<b onmouseover=alert(1)>Nightly</b>\u202egnp.exe"
SECRET = "a-very-secret-access-key"


@pytest.fixture
def exports(site: Site, short_folder: Path) -> Exports:
    """As the clock role has them."""
    return Exports(site.database, Sealer(SECRET_KEY), short_folder / "exports", ())


async def test_an_export_is_set_up_run_changed_and_deleted(site: Site, owner: Visitor, exports: Exports) -> None:
    await site.act("purchase", "exporter", "pro_monthly")
    page = await owner.open("/exports")
    await expect(page.get_by_role("heading", name="No exports yet")).to_be_visible()
    assert await serious_findings(page) == []
    await page.get_by_role("link", name="Add an export").click()
    assert await serious_findings(page) == []
    await page.get_by_label("Name", exact=True).fill(HOSTILE)
    await page.get_by_label("Destination").fill("/etc")
    await page.get_by_label("Secret access key").fill(SECRET)
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("alert")).to_contain_text("A folder is named by letters")
    assert await page.get_by_label("Name", exact=True).input_value() == HOSTILE
    assert SECRET not in await page.content()
    await page.get_by_label("Destination").fill("nightly")
    await page.get_by_label("Format").select_option("jsonl")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    assert await serious_findings(page) == []

    await page.get_by_role("button", name="Run now").click()
    await expect(page.get_by_role("status").first).to_contain_text("as soon as a process has time")
    assert await run_next(exports, lambda: site.clock.now)
    await page.reload()
    await expect(page.get_by_role("cell", name="whole")).to_be_visible()
    await expect(page.locator("td .badge.good")).to_have_text("done")
    assert await serious_findings(page) == []
    assert exports.folder is not None
    [manifest] = exports.folder.glob("nightly/*/*/manifest.json")
    assert json.loads(manifest.read_text())["kind"] == "whole"

    await page.get_by_role("link", name="Edit").click()
    await page.get_by_label("When").select_option("never")
    await page.get_by_label("Name", exact=True).fill("Nightly")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Only when asked")).to_be_visible()
    await page.goto(site.path("/exports"))
    await expect(page.get_by_role("link", name="Nightly")).to_be_visible()
    assert await serious_findings(page) == []
    await page.get_by_role("link", name="Nightly").click()
    await page.get_by_text("Delete this export").click()
    await page.get_by_label("I mean it").check()
    await page.get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("status").first).to_contain_text("is deleted")
    owner.complaints = [words for words in owner.complaints if "status of 4" not in words]


async def test_a_failed_run_says_why_and_no_page_has_the_key(site: Site, developer: Visitor, exports: Exports) -> None:
    page = await developer.open("/exports/new")
    await page.get_by_label("Name", exact=True).fill("Bucket")
    await page.get_by_label("Destination").fill("s3://warehouse/x")
    await page.get_by_label("Endpoint").fill("https://127.0.0.1:1")
    await page.get_by_label("Access key", exact=True).fill("AKIAEXAMPLE1234")
    await page.get_by_label("Secret access key").fill(SECRET)
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("alert")).to_contain_text("does not allow that endpoint")
    # What the operator allowed when it was saved, and not any more when it runs.
    await page.get_by_label("Endpoint").fill("https://storage.googleapis.com")
    await page.get_by_label("Access key", exact=True).fill("AKIAEXAMPLE1234")
    await page.get_by_label("Secret access key").fill(SECRET)
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("…1234")).to_be_visible()
    id = page.url.rsplit("/", 1)[1]
    await site.database.pool.execute("update exports set endpoint = 'https://127.0.0.1:1' where id = $1", id)
    await page.get_by_role("button", name="Run now").click()
    assert await run_next(exports, lambda: site.clock.now)
    await page.goto(site.path(f"/exports/{id}"))
    await expect(page.locator(".notice.refused")).to_contain_text(
        "The last run failed: This installation does not allow"
    )
    assert await serious_findings(page) == []
    for path in (f"/exports/{id}", f"/exports/{id}/edit", "/exports"):
        await page.goto(site.path(path))
        assert SECRET not in await page.content()
        assert "AKIAEXAMPLE" not in await page.content()
    assert (await get(site, f"exports/{id}")).json()["failures"] == 1
    developer.complaints = [words for words in developer.complaints if "status of 4" not in words]


async def test_a_small_export_is_downloaded_and_a_large_one_is_not(
    site: Site, owner: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.act("purchase", "downloader", "pro_monthly")
    page = await owner.open("/exports")
    async with page.expect_download() as started:
        await page.get_by_role("button", name="Download").click()
    downloaded = await started.value
    path = await downloaded.path()
    assert downloaded.suggested_filename.startswith("transactions-")
    rows = list(csv.DictReader(io.StringIO(path.read_text(), newline="")))
    assert "downloader" in {row["app_user_id"] for row in rows}
    assert {row["purchase_token"] for row in rows} == {""}
    monkeypatch.setattr(download, "MOST_CUSTOMERS", 0)
    await page.get_by_role("button", name="Download").click()
    await expect(page.get_by_role("alert")).to_contain_text("too much to download here")
    owner.complaints = [words for words in owner.complaints if "status of 4" not in words]


async def test_a_viewer_sees_exports_and_cannot_download(browser: Browser, site: Site) -> None:
    async with visiting(browser, site, Role.VIEWER) as viewer:
        page = await viewer.open("/exports")
        await expect(page.get_by_role("heading", name="Exports", level=1)).to_be_visible()
        await expect(page.get_by_role("button", name="Download")).to_have_count(0)
