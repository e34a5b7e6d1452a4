"""The live tail: each committed event comes to every open page once, and only to people who may see it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec import json
from playwright.async_api import Browser, Page, expect

from latchkey.dashboard.cookie import SESSION
from latchkey.database.pool import Database
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.accounts.usecases import sessions, team
from latchkey.subjects.events import usecases as event_tail
from latchkey.subjects.projects import usecases as projects
from tests.dashboard.cutting import wired
from tests.dashboard.site import Site, Visitor, opened, visiting
from tests.http.doings import did
from tests.patience import PATIENCE
from tests.subjects.events.test_page import HOSTILE

ACCEPT = b"text/event-stream"


@dataclass
class Line:
    """An event stream, read without a browser."""

    status: int = 0
    messages: list[dict[str, Any]] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    leaves: asyncio.Event = field(default_factory=asyncio.Event)
    _text: str = ""
    _said: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        self._text += message.get("body", b"").decode()
        *whole, self._text = self._text.split("\n\n")
        self._said.set()
        for block in whole:
            lines = dict(line.partition(": ")[::2] for line in block.splitlines())
            self.messages.append(lines | ({"data": json.decode(lines["data"])} if "data" in lines else {}))

    async def receive(self) -> Any:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    def told(self) -> list[tuple[str, str]]:
        happened = [one["data"] for one in self.messages if one.get("event") == "happened"]
        return [(one["customer"], one["type"]) for one in happened]

    async def until(self, count: int) -> list[tuple[str, str]]:
        await self._when(lambda: len(self.told()) >= count)
        return self.told()

    async def joined(self) -> None:
        """Wait until the stream has caught up and is live."""
        await self._when(lambda: any(set(one) == {"id"} for one in self.messages))

    async def _when(self, so: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not so():
                self._said.clear()
                await self._said.wait()


@asynccontextmanager
async def listening(
    site: Site, token: str | None, query: str = "", project_id: str | None = None, **headers: str
) -> AsyncIterator[Line]:
    line = Line()
    sent = [(b"host", b"localhost"), (b"accept", ACCEPT)]
    sent += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    if token:
        sent.append((b"cookie", f"{SESSION}={token}".encode()))
    path = f"/dashboard/projects/{project_id or site.project_id}/events/stream"
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "2", "method": "GET", "scheme": "https",
        "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "", "headers": sent,
        "client": ("127.0.0.1", 1), "server": ("localhost", 443), "state": {},
    }  # fmt: skip

    async def ask() -> None:
        await site.client.app(scope, line.receive, line.send)
        line.over.set()

    task = asyncio.create_task(ask())
    try:
        yield line
    finally:
        line.leaves.set()
        await task


async def head(site: Site) -> int:
    position: int = await site.database.pool.fetchval(
        "select position from feeds where project_id = $1", site.project_id
    )
    return position


def customers(page: Page) -> Any:
    return page.locator("tbody [data-customer]")


async def test_an_event_appears_on_the_open_page_and_then_that_it_was_delivered(site: Site, viewer: Visitor) -> None:
    hook = await site.hook()
    page = await viewer.open("/events")
    await expect(page.locator(".light.on")).to_be_visible()
    await did(site, "purchase", "live-ada", "pro_monthly")
    row = page.locator("tbody tr", has_text="live-ada")
    await expect(row).to_contain_text("INITIAL_PURCHASE")
    await expect(row.locator("[data-deliveries]")).to_have_text("delivered")
    await expect(page.get_by_role("status")).to_have_text("Live, 1 new event")
    await row.get_by_role("link", name="INITIAL_PURCHASE").click()
    await expect(page.locator("#deliveries")).to_contain_text("delivered")
    await site.client.request("DELETE", f"/v2/projects/{site.project_id}/integrations/webhooks/{hook['id']}")


async def test_hostile_text_that_arrives_live_is_only_text(site: Site, viewer: Visitor) -> None:
    page = await viewer.open("/events")
    page.on("dialog", lambda dialog: viewer.complaints.append(f"a script ran: {dialog.message}"))
    await expect(page.locator(".light.on")).to_be_visible()
    before = await customers(page).count()
    for id in HOSTILE:
        await did(site, "purchase", id, "pro_monthly")
    await expect(customers(page)).to_have_count(before + len(HOSTILE))
    assert (await customers(page).all_text_contents())[: len(HOSTILE)] == list(reversed(HOSTILE))
    hrefs = [await customers(page).nth(number).get_attribute("href") for number in range(len(HOSTILE))]
    assert all((href or "").startswith(f"/dashboard/projects/{site.project_id}/customers/") for href in hrefs)
    assert await page.locator("img[src=x]").count() == 0


async def test_a_page_that_is_paused_holds_still_and_then_shows_what_waited(site: Site, viewer: Visitor) -> None:
    page = await viewer.open("/events?type=CANCELLATION")
    await expect(page.locator(".light.on")).to_be_visible()
    await page.get_by_role("button", name="Pause").click()
    for id in ("held-1", "held-2"):
        await did(site, "purchase", id, "pro_monthly")
        await did(site, "cancel", id)
    await expect(page.get_by_role("status")).to_have_text("Paused, 2 new events waiting")
    await expect(page.locator("tbody tr", has_text="held-")).to_have_count(0)
    await page.get_by_role("button", name="Resume").click()
    await expect(page.locator("tbody [data-customer]", has_text="held-")).to_have_text(["held-2", "held-1"])
    assert set(await page.locator("tbody [data-type]").all_text_contents()) == {"CANCELLATION"}


async def test_a_tail_that_was_cut_off_goes_on_without_loss_or_repetition(site: Site, viewer: Visitor) -> None:
    async with wired(site.url) as wire:
        page = await viewer.open("/events")
        await page.goto(site.path("/events").replace(site.url, wire.url))
        await expect(page.locator(".light.on")).to_be_visible()
        await did(site, "purchase", "cut-0", "pro_monthly")
        await expect(page.locator("tbody tr", has_text="cut-")).to_have_count(1)
        for round in range(2):
            wire.cut()
            await expect(page.get_by_role("status")).to_have_text("Connecting again…")
            for number in range(1, 4):
                await did(site, "purchase", f"cut-{round}{number}", "pro_monthly")
            wire.mend()
            await expect(page.locator(".light.on")).to_be_visible()
        await did(site, "purchase", "cut-last", "pro_monthly")
        shown = page.locator("tbody [data-customer]", has_text="cut-")
        await expect(shown.first).to_have_text("cut-last")
        assert await shown.all_text_contents() == [
            "cut-last", "cut-13", "cut-12", "cut-11", "cut-03", "cut-02", "cut-01", "cut-0",
        ]  # fmt: skip
        await page.close()
    # The browser may have complained only about broken connections.
    assert all("net::ERR" in complaint for complaint in viewer.complaints)
    viewer.complaints.clear()


async def test_a_stream_resumes_after_the_last_event_that_was_seen(site: Site) -> None:
    token, start = await site.token(Role.VIEWER), await head(site)
    for number in range(3):
        await did(site, "purchase", f"seen-{number}", "pro_monthly")
    async with listening(site, token, f"after={start}", last_event_id=str(start + 1)) as line:
        assert await line.until(2) == [("seen-1", "INITIAL_PURCHASE"), ("seen-2", "INITIAL_PURCHASE")]
        await line.joined()
        await did(site, "cancel", "seen-0")
        assert (await line.until(3))[-1] == ("seen-0", "CANCELLATION")
        assert [int(one["id"]) for one in line.messages if one.get("event") == "happened"] == [
            start + 2, start + 3, start + 4,
        ]  # fmt: skip
    # The id of an event that does not exist yet: the stream starts now.
    async with listening(site, token, last_event_id="999999999") as line:
        await line.joined()
        await did(site, "uncancel", "seen-0")
        assert await line.until(1) == [("seen-0", "UNCANCELLATION")]


async def test_a_filter_holds_for_the_stream_too(site: Site) -> None:
    token = await site.token(Role.VIEWER)
    await did(site, "purchase", "one-of-two", "pro_monthly")
    after = await head(site)
    queries = ("customer=one-of-two", "type=REFUND", "environment=PRODUCTION", "clock=clk_none")
    lines = [listening(site, token, f"{query}&after={after}") for query in queries]
    async with lines[0] as of_customer, lines[1] as of_type, lines[2] as of_environment, lines[3] as of_clock:
        for line in (of_customer, of_type, of_environment, of_clock):
            await line.joined()
        await did(site, "purchase", "two-of-two", "pro_monthly", environment="PRODUCTION")
        await did(site, "refund", "two-of-two")
        await did(site, "cancel", "one-of-two")
        assert await of_customer.until(1) == [("one-of-two", "CANCELLATION")]
        assert await of_type.until(1) == [("two-of-two", "REFUND")]
        assert [type for _, type in await of_environment.until(2)] == ["INITIAL_PURCHASE", "REFUND"]
        assert of_clock.told() == []


async def test_who_is_too_far_behind_is_told_how_much_is_missing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_tail, "FURTHEST", 2)
    start = await head(site)
    for number in range(4):
        await did(site, "purchase", f"far-{number}", "pro_monthly")
    async with listening(site, await site.token(Role.VIEWER), f"after={start}") as line:
        await line.joined()
        [skipped] = [one for one in line.messages if one.get("event") == "skipped"]
        assert skipped["data"] == {"count": 4}
        assert line.told() == []


async def test_the_stream_is_closed_to_strangers_and_to_members_of_other_projects(site: Site) -> None:
    other = await projects.create_project(site.database, "Of others", site.clock.now)
    for token, project_id, status in (
        (None, site.project_id, 303),
        ("made-up", site.project_id, 303),
        (await site.token(None), site.project_id, 404),
        (await site.token(Role.OWNER), other.id, 404),
        (await site.token(Role.OWNER), "proj_unknown", 404),
    ):
        async with listening(site, token, project_id=project_id) as line:
            await asyncio.wait_for(line.over.wait(), PATIENCE)
        assert (line.status, line.told()) == (status, [])


async def test_another_projects_events_never_come(site: Site) -> None:
    other = await projects.create_project(site.database, "Beside", site.clock.now)
    email = await site.person(None)
    await team.add_member(site.database, other.id, email, Role.OWNER, site.clock.now)
    account = await site.account(email)
    token = await sessions.open_session(site.database, account.id, "127.0.0.1", "a test", site.clock.now)
    async with (
        listening(site, token, project_id=other.id) as theirs,
        listening(site, await site.token(Role.VIEWER)) as ours,
    ):
        await theirs.joined()
        await ours.joined()
        await did(site, "purchase", "only-ours", "pro_monthly")
        assert (await ours.until(1))[-1] == ("only-ours", "INITIAL_PURCHASE")
        assert theirs.told() == []


async def test_who_is_signed_out_or_removed_loses_the_stream_within_seconds(site: Site) -> None:
    ids, tokens = [], []
    for _ in range(3):
        account = await site.account(await site.person(Role.VIEWER))
        ids.append(account.id)
        tokens.append(await sessions.open_session(site.database, account.id, "127.0.0.1", "a test", site.clock.now))
    lines = [listening(site, token) for token in tokens]
    async with lines[0] as signed_out, lines[1] as removed, lines[2] as stays:
        for line in (signed_out, removed, stays):
            await line.joined()
        await sessions.end_session(site.database, tokens[0])
        await team.remove_member(site.database, site.project_id, ids[1])
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(signed_out.over.wait(), removed.over.wait())
        assert [line.messages[-1].get("event") for line in (signed_out, removed)] == ["over", "over"]
        assert not stays.over.is_set()


async def test_there_are_only_so_many_streams(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_tail, "MOST_SUBSCRIBERS", 1)
    token = await site.token(Role.VIEWER)
    async with listening(site, token) as first:
        await first.joined()
        async with listening(site, token) as second:
            await asyncio.wait_for(second.over.wait(), PATIENCE)
            assert second.status == 503


async def test_an_open_page_learns_that_its_session_is_over(site: Site, browser: Browser) -> None:
    async with visiting(browser, site, Role.VIEWER) as visitor:
        page = await visitor.open("/events")
        await expect(page.locator(".light.on")).to_be_visible()
        [cookie] = [one for one in await visitor.context.cookies() if one["name"] == SESSION]
        await sessions.end_session(site.database, cookie["value"])
        await expect(page.get_by_role("status")).to_contain_text("You are signed out")
        await expect(page.get_by_role("button", name="Pause list")).to_be_hidden()


async def reached(host: str, port: int, trusting: ssl.SSLContext) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as soon as the site listens."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await asyncio.open_connection(host, port, ssl=trusting)
            except ConnectionRefusedError:
                await asyncio.sleep(0.02)


async def test_open_streams_do_not_keep_a_process_from_stopping(database: Database, tmp_path: Path) -> None:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(opened(database, tmp_path, deliver=False))
        host, _, port = site.url.removeprefix("https://").partition(":")
        reader, writer = await reached(host, int(port), trusting)
        lines = (
            f"GET /dashboard/projects/{site.project_id}/events/stream HTTP/1.1",
            f"Host: {host}:{port}",
            f"Cookie: {SESSION}={await site.token(Role.VIEWER)}",
            "Accept: text/event-stream",
        )
        writer.write("\r\n".join((*lines, "", "")).encode())
        await asyncio.wait_for(reader.readuntil(b"id: 0\n\n"), PATIENCE)
        # The server waits for open requests without a limit here.
        await asyncio.wait_for(stack.aclose(), PATIENCE)
        await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()
