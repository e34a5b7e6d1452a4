"""Exports: set up, run, failed in plain words, downloaded, deleted; the secret is never shown."""

import csv
import io
import json
from pathlib import Path

import pytest

from latchkey.database.sealing import Sealer
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.exports.usecases import schedules as download
from latchkey.subjects.exports.usecases.schedules import Exports, run_next
from tests.dashboard.site import Site
from tests.dashboard.tab import tab
from tests.http.management import get
from tests.http.receiving import SECRET_KEY

HOSTILE = "<b onmouseover=alert(1)>Nightly</b>\u202egnp.exe"
SECRET = "a-very-secret-access-key"


@pytest.fixture
def exports(site: Site, short_folder: Path) -> Exports:
    """As the clock role has them."""
    return Exports(site.database, Sealer(SECRET_KEY), short_folder / "exports", ())


async def test_an_export_is_set_up_run_changed_and_deleted(site: Site, exports: Exports) -> None:
    await site.act("purchase", "exporter", "pro_monthly")
    page = await tab(site, Role.OWNER, "/exports")
    assert "No exports yet" in page.text(".empty h2")
    await page.follow("Add an export")
    await page.press("Save", {"Name": HOSTILE, "Destination": "/etc", "Secret access key": SECRET})
    assert "A folder is named by letters" in page.alert
    assert page.value("Name") == HOSTILE
    assert SECRET not in page.html
    await page.press("Save", {"Destination": "nightly", "Format": "jsonl"})
    assert page.heading.startswith(HOSTILE)

    await page.press("Run now")
    assert "as soon as a process has time" in page.notice
    assert await run_next(exports, lambda: site.clock.now)
    await page.open(page.path)
    assert "whole" in page.text("tbody")
    assert page.text("td .badge.good") == "done"
    assert exports.folder is not None
    [manifest] = exports.folder.glob("nightly/*/*/manifest.json")
    assert json.loads(manifest.read_text())["kind"] == "whole"

    await page.follow("Edit")
    await page.press("Save", {"When": "never", "Name": "Nightly"})
    assert "Only when asked" in page.text()
    await page.open("/exports")
    await page.follow("Nightly")
    await page.press("Delete export", sure=True)
    assert "is deleted" in page.notice


async def test_a_failed_run_says_why_and_no_page_has_the_key(site: Site, exports: Exports) -> None:
    page = await tab(site, Role.DEVELOPER, "/exports/new")
    keys = {"Access key": "AKIAEXAMPLE1234", "Secret access key": SECRET}
    bucket = {"Name": "Bucket", "Destination": "s3://warehouse/x", "Endpoint": "https://127.0.0.1:1"}
    await page.press("Save", {**bucket, **keys})
    assert "does not allow that endpoint" in page.alert
    # What the operator allowed when it was saved, and not any more when it runs.
    await page.press("Save", {"Endpoint": "https://storage.googleapis.com", **keys})
    assert "…1234" in page.text()
    id = page.path.rsplit("/", 1)[1]
    await site.database.pool.execute("update exports set endpoint = 'https://127.0.0.1:1' where id = $1", id)
    await page.press("Run now")
    assert await run_next(exports, lambda: site.clock.now)
    await page.open(f"/exports/{id}")
    assert "The last run failed: This installation does not allow" in page.text(".notice.refused")
    for path in (f"/exports/{id}", f"/exports/{id}/edit", "/exports"):
        await page.open(path)
        assert SECRET not in page.html
        assert "AKIAEXAMPLE" not in page.html
    assert (await get(site, f"exports/{id}")).json()["failures"] == 1


async def test_a_small_export_is_downloaded_and_a_large_one_is_not(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await site.act("purchase", "downloader", "pro_monthly")
    page = await tab(site, Role.OWNER, "/exports")
    await page.press("Download")
    assert 'filename="transactions-' in page.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(page.html, newline="")))
    assert "downloader" in {row["app_user_id"] for row in rows}
    assert {row["purchase_token"] for row in rows} == {""}
    monkeypatch.setattr(download, "MOST_CUSTOMERS", 0)
    await page.open("/exports")
    await page.press("Download")
    assert "too much to download here" in page.alert
