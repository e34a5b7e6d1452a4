"""`latchkey up` with real processes: ready, asked, stopped, killed, started again."""

import asyncio
import http.client
import json
import re
import sqlite3
import ssl
import stat
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import asyncpg
import psutil  # type: ignore[import-untyped]  # ships no types
import pytest
from playwright.async_api import Browser

from latchkey.database.embedded.data_files import LIMIT
from latchkey.database.embedded.postgres import processes_on
from latchkey.process.supervision.listeners import bind
from tests.cli.running import Running, Up, ask, get, typed
from tests.connections import connected
from tests.patience import wait_until

WRITTEN = "demo history written"


@pytest.fixture(scope="module")
def up(short_folder: Path) -> Iterator[Up]:
    """One `latchkey up`, shared by the tests that only read. 0 workers means as many as there are by default."""
    with Up(short_folder / "up", "--port", "0", "--workers", "0") as up:
        up.wait_until_ready()
        yield up
        assert up.terminate() == 0


@pytest.fixture
def folder(short_folder: Path, request: pytest.FixtureRequest) -> Path:
    return short_folder / f"up-{abs(hash(request.node.name)) % 100_000}"


def children_of(up: Running) -> list[int]:
    found = []
    for child in psutil.Process(up.process.pid).children():
        # It may have ended since.
        with suppress(psutil.NoSuchProcess):
            if "postgres" not in child.name():
                found.append(child.pid)
    return found


def alive(pid: int) -> bool:
    """Running, not a zombie: process 1 may reap a dead orphan a second or more later."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_connection_json_says_where_everything_is_and_only_to_its_owner(up: Up) -> None:
    assert set(up.connection) == {
        "base_url", "ca_cert", "project_id", "api_key", "public_api_key", "database_url", "push", "consumer",
        "dashboard", "stores",
    }  # fmt: skip
    assert set(up.connection["stores"]) == {"apple", "google", "stripe"}
    assert stat.S_IMODE((up.folder / "connection.json").stat().st_mode) == 0o600
    assert up.connection["api_key"].startswith("sk_")
    assert up.connection["public_api_key"].startswith("test_")
    assert up.connection["base_url"].startswith("https://127.0.0.1:")


def test_the_first_account_signs_in_and_its_link_is_made_whole(up: Up) -> None:
    dashboard = up.connection["dashboard"]
    assert dashboard["url"] == f"{up.connection['base_url']}/dashboard"
    form = urlencode({"email": dashboard["email"], "password": dashboard["password"]}).encode()
    reply = ask(
        up.connection["base_url"], "POST", "/dashboard/sign-in", body=form, authority=up.connection["ca_cert"],
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )  # fmt: skip
    assert (reply.body, reply.status, reply.headers["location"]) == (b"", 303, "/dashboard")
    cookie = reply.headers["set-cookie"].partition(";")[0]
    status, page = up.get(f"/dashboard/projects/{up.connection['project_id']}/team", cookie=cookie)
    assert dashboard["email"].encode() in page
    assert status == 200
    made = typed("user", "create", "ann@example.com", "--role", "viewer", "--data", up.folder)
    assert f"{up.connection['base_url']}/dashboard/invitations/" in made.stdout, made
    assert "latchkey trust --data" in up.output


def test_the_push_sandbox_answers_where_it_says(up: Up) -> None:
    push = up.connection["push"]
    assert set(push) == {"base_url", "app_id", "rest_api_key"}
    path = f"/api/v1/notifications?app_id={push['app_id']}"
    status, said = get(push["base_url"], up.connection["ca_cert"], path, Authorization=f"Basic {push['rest_api_key']}")
    assert (status, json.loads(said)["notifications"]) == (200, [])


def emulate(up: Up, *words: str) -> str:
    told = typed("emulate", *words, "--data", up.folder, COLUMNS="300")
    assert told.returncode == 0, told.stderr
    return told.stdout


def entitlement(up: Up, customer: str) -> dict[str, Any]:
    _, said = up.get(f"/v1/subscribers/{customer}", Authorization=f"Bearer {up.connection['api_key']}")
    found: dict[str, Any] = json.loads(said).get("subscriber", {}).get("entitlements", {}).get("pro", {})
    return found


def test_a_customer_buys_in_each_store_emulator_and_all_are_verified(up: Up) -> None:
    # Its id is no UUID, so the receipt is shown for it; then the notification finds it known.
    emulate(up, "sell", "pro_monthly", "--customer", "ada")
    assert entitlement(up, "ada")["product_identifier"] == "pro_monthly"
    # A UUID travels as the account token: nobody but the store tells of this purchase.
    grace = "6fa459ea-ee8a-3ca4-894e-db77e160355e"
    sold = emulate(up, "sell", "pro_monthly:monthly", "--customer", grace)
    id = sold.split("purchase ")[-1].strip()
    wait_until(lambda: entitlement(up, grace), "the notification of Google Play was not processed")
    # Stripe's metadata takes any id.
    emulate(up, "sell", "pro_monthly:price_pro_monthly", "--customer", "alan")
    wait_until(lambda: entitlement(up, "alan"), "the webhook of Stripe was not processed")
    for app in up.connection["stores"].values():
        path = f"/v2/projects/{up.connection['project_id']}/apps/{app['app_id']}/credentials"
        _, said = up.get(path, Authorization=f"Bearer {up.connection['api_key']}")
        shown = json.loads(said)
        assert shown["check"]["result"] == "ok"
        assert shown["credentials"]["api_base_url"] == app["api_url"]
    before = emulate(up, "clock")
    assert before.count("The clock of") == 3
    emulate(up, "act", id[:12], "refund")
    wait_until(lambda: not entitlement(up, grace) or is_over(up, grace), "the refund of Google Play had no effect")
    listed = emulate(up, "notifications")
    assert "SUBSCRIBED/INITIAL_BUY" in listed
    assert "PURCHASED" in listed
    told = typed("emulate", "sell", "nothing", "--data", up.folder)
    assert "No store emulator here sells 'nothing'" in told.stderr
    assert "latchkey emulate sell" in up.output


def is_over(up: Up, customer: str) -> bool:
    return bool(entitlement(up, customer)["expires_date"] < datetime.now(UTC).isoformat())


def test_a_test_clock_follows_a_store_emulators_clock(up: Up) -> None:
    clock = up.call("POST", "test_clocks", {"name": "with Apple"})["id"]
    up.call("POST", "customers", {"id": "frieda", "test_clock_id": clock})
    # The store's clock may be ahead already.
    emulate(up, "clock", "--store", "apple", "--test-clock", clock)
    sold = emulate(up, "sell", "pro_monthly", "--customer", "frieda").split("purchase ")[-1].strip()
    told = emulate(up, "clock", "P1M", "--store", "apple", "--test-clock", clock)
    [stands] = {line.rpartition(": ")[2][:16] for line in told.splitlines()}
    assert told.count(stands) == 2, "both stand at the same minute"
    emulate(up, "act", sold, "cancel")
    emulate(up, "clock", "P2M", "--store", "apple", "--test-clock", clock)
    path = f"/v2/projects/{up.connection['project_id']}/customers/frieda/events"
    _, said = up.get(path, Authorization=f"Bearer {up.connection['api_key']}")
    happened = [item["type"] for item in json.loads(said)["items"]]
    assert happened == ["INITIAL_PURCHASE", "RENEWAL", "CANCELLATION", "EXPIRATION"]
    wrong = typed("emulate", "clock", "--test-clock", "clk_none", "--data", up.folder)
    assert (wrong.returncode, "There is no test clock 'clk_none'" in wrong.stderr) == (1, True)


async def test_a_purchase_is_made_and_lives_on_the_page_of_the_store_emulator(
    up: Up, browser: Browser, tmp_path: Path
) -> None:
    context = await browser.new_context(ignore_https_errors=True, reduced_motion="reduce")
    page = await context.new_page()
    dashboard, app = up.connection["dashboard"], up.connection["stores"]["apple"]["app_id"]
    await page.goto(dashboard["url"])
    await page.fill("input[name=email]", dashboard["email"])
    await page.fill("input[name=password]", dashboard["password"])
    await page.press("input[name=password]", "Enter")
    await page.wait_for_url("**/projects/**")
    await page.goto(f"{dashboard['url']}/projects/{up.connection['project_id']}/apps/{app}")
    await page.get_by_role("link", name="App Store emulator").click()
    await page.get_by_label("Customer").fill("heidi")
    await page.get_by_role("button", name="Buy as Apple").click()
    row = page.locator("#purchases tbody tr", has_text="heidi")
    await row.get_by_role("button", name="Renew").click()
    await page.locator("#notifications tr", has_text="DID_RENEW").first.wait_for()
    await row.get_by_role("button", name="Fail the next payment").click()
    await page.get_by_text("Done: fail the next payment").wait_for()
    await page.get_by_role("button", name="+ 1 month").click()
    await row.get_by_text("payment failed").wait_for()
    await row.get_by_role("button", name="Let the payment succeed").click()
    await row.get_by_text("active").wait_for()
    await row.get_by_role("button", name="Refund").click()
    await row.get_by_text("refunded").wait_for()
    await page.screenshot(path=tmp_path / "store-emulator.png", full_page=True)
    # The link leads to the customer who was named, though the id is no UUID.
    await row.get_by_role("link", name="heidi").click()
    await page.wait_for_url("**/customers/heidi")
    await page.goto(f"{dashboard['url']}/projects/{up.connection['project_id']}/apps/app_demo/store-emulator")
    await page.get_by_text("This app has no store emulator").wait_for()
    await context.close()


def test_every_file_with_a_secret_is_closed_to_others(up: Up) -> None:
    # The last thing that the store emulators write at their first start.
    wait_until(lambda: (up.folder / "stores" / "stripe" / "credentials.json").exists())
    for name in (
        "connection.json",
        "demo.json",
        "push/push.json",
        "consumer/consumer.json",
        "stores/apple/keys.json",
        "stores/google/keys.json",
        "stores/stripe/keys.json",
        "secret.key",
        "tls/server.key",
        "tls/authority.key",
        "latchkey.log",
    ):
        assert stat.S_IMODE((up.folder / name).stat().st_mode) == 0o600, name


def test_it_answers_over_https_to_whoever_trusts_its_authority(up: Up) -> None:
    assert up.get("/readyz")[0] == 200
    assert up.get("/healthz")[0] == 200
    assert up.get("/v1/subscribers/newcomer", Authorization=f"Bearer {up.connection['api_key']}")[0] == 201
    assert up.get("/v1/subscribers/nobody", Authorization="Bearer sk_wrong")[0] == 401


def test_strangers_to_the_authority_and_plain_http_get_nothing(up: Up) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        get(up.connection["base_url"], ssl.get_default_verify_paths().cafile or "/etc/ssl/cert.pem", "/readyz")
    with pytest.raises((OSError, http.client.HTTPException)):
        get(up.connection["base_url"].replace("https", "http"), None, "/readyz")


async def test_the_database_url_works_as_it_is(up: Up) -> None:
    connection = await asyncpg.connect(up.connection["database_url"])
    assert await connection.fetchval("select name from projects where id = $1", up.connection["project_id"]) == "Demo"
    await connection.close()


def test_it_says_where_to_go_next(up: Up) -> None:
    for words in (up.connection["base_url"], up.connection["ca_cert"], "/v1/subscribers/alice", "/customers/alice"):
        assert words in up.output
    told = " ".join(up.output.split())
    assert re.search(r"Ready after [\d.]+ s \(code [\d.]+, database [\d.]+, demo [\d.]+, processes [\d.]+\)", told)


def test_a_pipe_gets_one_line_about_the_migrations(up: Up) -> None:
    told = [line for line in up.lines if "igrat" in line]
    assert len(told) == 1, told
    assert re.fullmatch(r"Running \d+ database migrations? \.\.\.\n", told[0])


def test_no_key_is_in_any_log(up: Up) -> None:
    headers = {"Authorization": f"Bearer {up.connection['api_key']}", "X-Request-Id": "logged-with-a-key"}
    assert up.get("/v1/subscribers/nobody", **headers)[0] == 201
    wait_until(lambda: "logged-with-a-key" in (up.folder / "latchkey.log").read_text(), "the request is not logged")
    for log in ("latchkey.log", "postgres.log"):
        text = (up.folder / log).read_text()
        assert up.connection["api_key"] not in text
        assert up.connection["public_api_key"] not in text


def test_a_log_that_grows_large_begins_anew_while_up_runs(up: Up) -> None:
    log, before = up.folder / "latchkey.log", up.folder / "latchkey.log.1"
    with log.open("ab") as file:
        file.write(b"the line before\n" + b"-" * LIMIT + b"\n")
    wait_until(lambda: before.exists() and log.stat().st_size < LIMIT, "the log is as long as it was")
    assert b"the line before" in before.read_bytes()
    assert before.stat().st_mode & 0o077 == 0
    up.get("/v1/subscribers/nobody", **{"X-Request-Id": "after-the-cut"})
    wait_until(lambda: "after-the-cut" in log.read_text(), "the processes do not write to it any more")


def test_a_second_up_on_the_same_folder_says_so_and_the_first_goes_on(up: Up) -> None:
    second = typed("up", "--data", up.folder, "--port", "0")
    assert second.returncode == 1
    assert f"in use by another Latchkey (process {up.process.pid})" in second.stderr
    assert up.get("/readyz")[0] == 200


def test_a_taken_port_is_one_clear_line(folder: Path) -> None:
    (taken,) = bind("127.0.0.1", 0, 1)
    port = taken.getsockname()[1]
    told = typed("up", "--data", folder, "--port", str(port))
    taken.close()
    assert told.returncode == 1
    assert told.stderr.count("\n") == 1
    assert f"Port {port} on 127.0.0.1 is taken" in told.stderr


@pytest.mark.parametrize(("host", "complaint"), [("8.8.8.8", "latchkey serve"), ("example.com", "not an IP address")])
def test_an_address_that_is_not_this_machines_own_is_refused(folder: Path, host: str, complaint: str) -> None:
    told = typed("up", "--data", folder, "--host", host)
    assert told.returncode == 1
    assert complaint in told.stderr


def test_ctrl_c_and_kill_9_stop_everything_and_the_next_up_finds_it_again(folder: Path) -> None:
    first = Up(folder, "--port", "0", history=True)
    known = first.wait_until_ready()
    children = children_of(first)
    assert len(children) >= 2
    # Most likely while the demo's history is being made up: then the next start does that.
    first.kill()
    wait_until(lambda: not any(alive(child) for child in children), "a process survived its killed parent")

    second = Up(folder, "--port", known["base_url"].rsplit(":", 1)[1], history=True)
    assert second.wait_until_ready() == known
    if WRITTEN not in first.output:
        second.wait_for(WRITTEN)
    assert _consumer_begins_after(folder) == asyncio.run(_last_event(known["database_url"]))
    assert second.get("/v1/subscribers/nobody", Authorization=f"Bearer {known['api_key']}")[0] == 201

    # The next start has the same folder, port and keys at once, too.
    children = children_of(second)
    second.kill()
    third = Up(folder, "--port", known["base_url"].rsplit(":", 1)[1], history=True)
    assert third.wait_until_ready() == known
    wait_until(lambda: not any(alive(child) for child in children), "a process survived its killed parent")
    assert third.get("/v1/subscribers/nobody", Authorization=f"Bearer {known['api_key']}")[0] == 200

    children = children_of(third)
    assert third.ctrl_c() == 0
    assert not any(alive(child) for child in children)
    assert processes_on(folder / "postgres") == []
    assert "Traceback" not in third.output
    assert "made-up" not in third.output, "the history is written once"


def _consumer_begins_after(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "consumer" / "consumer.db")) as kept:
        ((value,),) = kept.execute("select value from billing_progress where name = 'feed'").fetchall()
        return str(value)


async def _last_event(database_url: str) -> str:
    """The last event of the demo's history."""
    async with connected(asyncpg.connect(database_url)) as connection:
        newest = "select e.id from events e join imports i on e.committed_at = i.finished_at order by e.position desc"
        return str(await connection.fetchval(newest))


def test_ctrl_c_while_still_starting_is_a_clean_stop(folder: Path) -> None:
    up = Running("up", "--data", folder, "--port", "0")
    up.wait_for("Starting PostgreSQL")
    assert up.ctrl_c() == 0
    assert processes_on(folder / "postgres") == []
    assert "Traceback" not in up.output
