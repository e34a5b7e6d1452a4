"""Text from outside is shown as text; secrets are shown once or never; invalid input is refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Page, expect

from latchkey.dashboard.form import Form
from latchkey.domain.retry import SCHEDULE
from latchkey.subjects.webhooks.page.webhook_pages import given, read_schedule, say_schedule, write_schedule
from latchkey.subjects.webhooks.receiver import tls
from tests.dashboard.asking import somebody
from tests.dashboard.site import Site, Visitor
from tests.http.doings import count_rows, did

SCRIPT = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>"
TURNED = "\u202eevil\u2066"
LONG = "x" * 10_000
AUTHORIZATION = "Bearer open-sesame-4711"


@asynccontextmanager
async def answering(site: Site, body: bytes, **headers: str) -> AsyncIterator[str]:
    """A receiver that says exactly this with status 400, over real TLS."""
    lines = [f"{name}: {value}" for name, value in {**headers, "content-length": str(len(body))}.items()]
    reply = ("HTTP/1.1 400 x\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode() + body

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                [length] = [line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                await reader.readexactly(int(length))
                writer.write(reply)
        except asyncio.IncompleteReadError:
            writer.close()

    assert site.settings.tls_cert is not None
    assert site.settings.tls_key is not None
    context = tls(site.settings.tls_cert, site.settings.tls_key)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


async def harmless(page: Page) -> None:
    assert await page.evaluate("window.pwned") is None
    assert await page.locator("main img, main script").count() == 0
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert await page.evaluate(
        "[...document.querySelectorAll('bdi')].every((one) => getComputedStyle(one).unicodeBidi.startsWith('isolate'))"
    )


async def test_what_a_receiver_answers_and_what_names_say_is_shown_and_does_nothing(
    site: Site, developer: Visitor
) -> None:
    body = f"{SCRIPT} {TURNED} {LONG} \x00\x1b".encode() + b"\xff\xfe"
    async with answering(site, body, x_said=SCRIPT, x_long=LONG) as url:
        made = await site.hook("", url=url, name=f"{SCRIPT}{TURNED}"[:100], retry_schedule_seconds=[])
        await did(site, "purchase", f"{TURNED}<i>ada", "pro_yearly")
        [failed] = await site.settled(made["id"], "failed")
        page = await developer.open("/webhooks")
        await expect(page.locator(".hook h2").get_by_text(SCRIPT)).to_be_visible()
        await harmless(page)
        await page.goto(site.path(f"/webhooks/{made['id']}"))
        await page.get_by_role("button", name="Send Test Event").click()
        await expect(page.locator("#answer")).to_contain_text("window.pwned=1")
        await harmless(page)
        for path in (f"deliveries/{failed['id']}", "deliveries", "edit"):
            await page.goto(site.path(f"/webhooks/{made['id']}/{path}"))
            await expect(page.locator("h1")).to_be_visible()
            await harmless(page)
        await page.goto(site.path(f"/webhooks/{made['id']}/deliveries/{failed['id']}"))
        await expect(page.locator("pre.foreign")).to_contain_text(LONG)
        await expect(page.locator("dl.headers").first).to_contain_text(SCRIPT)
        await page.get_by_label("Payload").get_by_text("<i>ada").first.wait_for()


async def test_json_as_deep_as_a_well_is_shown_as_it_came(site: Site) -> None:
    person = await somebody(site)
    async with answering(site, b"[" * 16_000) as url:
        id = (await site.hook("", url=url))["id"]
        reply = await person.post(where(site, f"/{id}/test"), {"type": "TEST"})
    assert reply.status == 200
    assert b"[[[[[[[[" in reply.body


async def test_no_page_and_no_log_holds_a_secret(site: Site) -> None:
    person = await somebody(site)
    filled = {"name": "Kept", "url": site.address + "/flaky/1", "environment": "both", "retries": ""}
    made = await person.post(where(site, "/new"), {**filled, "authorization_header": AUTHORIZATION})
    assert made.status == 200
    assert b"sesame" not in made.body
    [hook] = [one for one in (await site.shown(""))["items"] if one["name"] == "Kept"]
    loaded = await secrets_of(site, hook["id"])
    assert all(secret in made.body for secret in loaded)
    await did(site, "purchase", "fay", "pro_yearly")
    [failed] = await site.settled(hook["id"], "failed")
    below = f"/{hook['id']}"
    rotated = await person.post(where(site, f"{below}/rotate"), {"overlap": "86400000", "confirm": "yes"})
    assert rotated.status == 200
    loaded += await secrets_of(site, hook["id"])
    assert sum(secret in rotated.body for secret in loaded) == 1
    replies = [
        await person.get(where(site, path))
        for path in ("", below, f"{below}/edit", f"{below}/deliveries", f"{below}/deliveries/{failed['id']}")
    ]
    replies.append(await person.post(where(site, f"{below}/test"), {"type": "TEST"}))
    refused = {**filled, "url": "http://x", "authorization_header": AUTHORIZATION}
    replies.append(await person.post(where(site, f"{below}/edit"), refused))
    assert [reply.status for reply in replies] == [200, 200, 200, 200, 200, 200, 400]
    told = str([tuple(row) for row in await site.database.pool.fetch("select * from audit_entries")]).encode()
    for text in (*(reply.body for reply in replies), told):
        assert b"sesame" not in text
        assert not any(secret in text for secret in loaded)


async def secrets_of(site: Site, id: str) -> list[bytes]:
    webhooks = site.dashboard[0]._guard._services.webhooks
    webhook = await webhooks.load(site.project_id, id)
    return [webhook.secret.encode()]


async def test_nonsense_is_refused_and_changes_nothing(site: Site) -> None:
    person = await somebody(site)
    id = (await site.hook("/", name="Unmoved"))["id"]
    before, rows = await site.shown(id), await count_rows(site, apart_from=("rate_windows",))
    good = {"name": "n", "url": "https://app.example.com/x", "environment": "both", "retries": "5s"}
    for wrong in (
        {"name": ""},
        {"name": LONG},
        {"url": ""},
        {"url": "https://app.example.com/" + LONG},
        {"url": "https://192.168.0.1/x"},
        {"url": "https://[::1]/"},
        {"url": "https://169.254.169.254/latest"},
        {"url": "https://user:pass@app.example.com/"},
        {"environment": "moon"},
        {"event_types": ["RENEWAL", "MOONRISE"]},
        {"app_id": "app_of_others"},
        {"retries": "soon"},
        {"retries": "8d"},
        {"retries": "1s " * 51},
        {"in_flight_limit": "0"},
        {"authorization_header": "Bearer \u202e"},
    ):
        for path in ("/new", f"/{id}/edit"):
            reply = await person.post(where(site, path), {**good, **wrong})
            assert (reply.status, b'role="alert"' in reply.body) == (400, True), (path, wrong, reply)
    for path, form, status in (
        (f"/{id}/test", {"type": "MOONRISE"}, 400),
        (f"/{id}/rotate", {"overlap": "86400000"}, 400),
        (f"/{id}/rotate", {"overlap": "5", "confirm": "yes"}, 400),
        (f"/{id}/delete", {}, 400),
        (f"/{id}/replays", {"since": "", "status": "failed", "confirm": "yes"}, 400),
        (f"/{id}/replays", {"since": "0001-01-01", "status": "failed", "confirm": "yes"}, 400),
        (f"/{id}/replays", {"since": "2027-01-01", "status": "odd", "confirm": "yes"}, 400),
        (f"/{id}/replays", {"since": "2027-01-02", "until": "2027-01-01", "status": "all", "confirm": "yes"}, 400),
        (f"/{id}/deliveries/none/resend", {}, 404),
        ("/wh_none/pause", {}, 404),
        ("/wh_none/test", {"type": "TEST"}, 404),
    ):
        reply = await person.post(where(site, path), form)
        assert reply.status == status, (path, form, reply)
    for path, status in (
        ("?after=wh_none", 404),
        ("/wh_none", 404),
        ("/wh_none/edit", 404),
        (f"/{id}/deliveries/none", 404),
        (f"/{id}/replays/none", 404),
        (f"/{id}/deliveries?status=odd", 400),
        (f"/{id}/deliveries?type=odd", 400),
        (f"/{id}/deliveries?since=odd", 400),
        (f"/{id}/deliveries?after=odd", 400),
        (f"/{id}/deliveries?customer=nobody", 400),
    ):
        reply = await person.get(where(site, path))
        assert reply.status == status, (path, reply)
    after = await count_rows(site, apart_from=("rate_windows",))
    # Only the audit log has more rows: the refusals.
    assert {name for name in after if after[name] != rows[name]} == {"audit_entries"}
    assert await site.shown(id) == before


def test_waits_are_read_as_they_are_written() -> None:
    assert write_schedule(SCHEDULE) == "5s 30s 2m 5m 10m 20m 40m 80m 3h 6h 12h 1d"
    assert say_schedule([5, 80 * 60, 86_400, 2 * 86_400]) == "5 s, 80 min, 1 day, 2 days"
    assert tuple(read_schedule(write_schedule(SCHEDULE))) == SCHEDULE
    assert read_schedule(" 90, 2m,1h ") == [90, 120, 3600]
    assert read_schedule("") == []


def test_a_form_says_what_the_api_would_be_told() -> None:
    form = Form([("name", " N "), ("url", "https://x.example"), ("environment", "both"), ("event_types", "REFUND")])
    assert given(form, editing=True) == {
        "name": "N",
        "url": "https://x.example",
        "environment": None,
        "event_types": ["REFUND"],
        "app_id": None,
        "retry_schedule_seconds": [],
        "in_flight_limit": 100,
    }


def where(site: Site, below: str) -> str:
    return f"/dashboard/projects/{site.project_id}/webhooks{below}"
