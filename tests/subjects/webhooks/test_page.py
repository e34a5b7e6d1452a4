"""Webhooks: somebody sets one up, sees it fail, and repairs it."""

import re
import socket
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import expect

from latchkey.domain.instants import DAY
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.accounts.usecases import team
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.projects import usecases as projects
from latchkey.subjects.webhooks.delivery.queue import requeue_runs as requeue
from latchkey.subjects.webhooks.rules import WebhookHealth
from latchkey.subjects.webhooks.storage import webhook_rows as health
from tests.dashboard.asking import somebody
from tests.dashboard.site import Site, Visitor
from tests.dashboard.tab import tab
from tests.http.doings import did
from tests.http.receiving import HOOKS
from tests.patience import until
from tests.subjects.webhooks.test_deliveries_api import failing, failures

AUTHORIZATION = "Bearer open-sesame-4711"


@pytest.fixture(autouse=True)
async def _alone(site: Site) -> AsyncIterator[None]:
    """Delete all webhooks after each test: each of them gets the events of every customer."""
    yield
    for one in (await site.shown(""))["items"]:
        gone = await site.client.request("DELETE", f"/v2/projects/{site.project_id}/{HOOKS}/{one['id']}")
        assert gone.status == 200, gone


async def test_somebody_adds_a_webhook_tests_it_and_sees_it_fail(site: Site) -> None:
    page = await tab(site, Role.DEVELOPER, "/webhooks")
    assert page.text(".empty h2") == "No webhooks yet"
    assert f"/v2/projects/{site.project_id}/integrations" in page.text(".snippet code")
    # Two wrong URLs are refused, and the form keeps what was typed.
    await page.follow("Add a webhook")
    typed = {"Name": "Billing", "Environment": "Sandbox", "Authorization header value": AUTHORIZATION}
    for url, words in (("http://app.example.com/x", "must begin with https://"), ("https://10.1.2.3/x", "not allowed")):
        await page.press("Add webhook", {**typed, "Webhook URL": url})
        assert words in page.alert
        assert page.soup.select(f'[aria-invalid=true][value="{url}"]')
        assert (page.value("Name"), page.value("Environment")) == ("Billing", "sandbox")
        assert "sesame" not in page.html

    url = site.address + "/flaky/1"
    given = {"Webhook URL": url, "Authorization header value": AUTHORIZATION, "Retry delays": ""}
    await page.press("Add webhook", given)
    secret = page.text(".secret")
    assert secret.startswith("whsec_")
    await page.follow("Next: send a test event")
    assert secret not in page.html

    # A test event of a chosen type, and the answer at once.
    await page.press("Send Test Event", {"Event type": "RENEWAL"})
    for words in ("did not accept the test event", "answered 500 instead of 200", "oops", "Bearer ••••"):
        assert words in page.text("#answer")
    assert site.arrivals[-1].event.type == "RENEWAL"
    assert site.arrivals[-1].headers["authorization"] == AUTHORIZATION

    # Two real events that the receiver refuses.
    id = page.path.rpartition("/webhooks/")[2].partition("/")[0]
    await did(site, "purchase", "ada", "pro_yearly")
    await did(site, "purchase", "bob", "pro_yearly")
    await site.settled(id, "failed", 2)
    await page.follow("Delivery log")
    assert len(page.rows) == 2
    await page.press("Filter", {"Outcome": "Delivered"})
    assert "No delivery matches" in page.text()
    await page.press("Filter", {"Outcome": "Failed", "Event type": "INITIAL_PURCHASE", "Customer": "ada"})
    assert len(page.rows) == 1
    await page.follow("INITIAL_PURCHASE", "tbody")
    [attempt] = page.texts(".attempt")
    assert "answered 500 instead of 200" in attempt
    assert "Bearer ••••" in attempt
    assert '"app_user_id": "ada"' in page.text("[aria-label=Payload]")


async def test_an_open_page_follows_what_is_sent_again_and_a_replay(site: Site, developer: Visitor) -> None:
    id = (await site.hook("/flaky/1", name="Billing", retry_schedule_seconds=[]))["id"]
    await did(site, "purchase", "again", "pro_yearly")
    await did(site, "purchase", "replayed", "pro_yearly")
    failed = await site.settled(id, "failed", 2)
    page = await developer.open(f"/webhooks/{id}/deliveries/{failed[0]['id']}")
    await page.get_by_role("button", name="Send again").click()
    await expect(page.get_by_role("status")).to_have_text("It is being sent again.")
    await expect(page.locator(".attempt")).to_have_count(2)
    await expect(page.locator("h1")).to_contain_text("delivered")

    # Replay the rest.
    await page.get_by_role("link", name="Billing").click()
    await page.get_by_text("Replay everything that failed since").click()
    await page.get_by_role("button", name="Count them").click()
    await expect(page.get_by_role("status")).to_have_text("1 delivery would be sent again.")
    await page.get_by_role("button", name="Start replay").click()
    await expect(page.get_by_text("Looking through what happened")).to_be_visible()
    while await requeue.work_off(site.database, site.clock.now):
        pass
    await expect(page.get_by_text("Finished. All of it arrived.")).to_be_visible()
    await expect(page.locator(".bars")).to_contain_text("1 of 1")
    # The health is recorded after the delivery, and the next page does not update by itself.
    assert [one["attempts_count"] for one in await site.settled(id, "delivered", 2)] == [2, 2]
    await page.get_by_role("link", name="Billing").click()
    await expect(page.locator("h1")).to_contain_text("ok")
    await expect(page.locator("#health")).to_contain_text("The last delivery succeeded.")


async def test_a_webhook_is_edited_and_its_authorization_kept_until_another_is_typed(site: Site) -> None:
    id = (await site.hook("/", authorization_header=AUTHORIZATION))["id"]
    page = await tab(site, Role.DEVELOPER, f"/webhooks/{id}/edit")
    assert page.value("Authorization header value") == ""
    changes = {"Name": "Renamed", "Environment": "Production", "App": "app_demo", "Dialect": "RevenueCat"}
    await page.press("Save", {**changes, "REFUND": True, "Retry delays": "10s, 2m 1h"})
    assert "Saved" in page.notice
    shown = await site.shown(id)
    assert (shown["name"], shown["environment"], shown["event_types"]) == ("Renamed", "production", ["REFUND"])
    assert (shown["retry_schedule_seconds"], shown["app_id"]) == ([10, 120, 3600], "app_demo")
    assert shown["has_authorization_header"]
    assert shown["dialect"] == "revenuecat"
    await page.press("Send Test Event", {"Event type": "REFUND"})
    assert "Your server accepted the test event" in page.text("#answer")
    assert b'"cancel_reason":"CUSTOMER_SUPPORT"' in site.arrivals[-1].body
    assert site.arrivals[-1].headers["authorization"] == AUTHORIZATION

    await page.follow("Edit")
    await page.press("Save", {"Send no Authorization header any more": True})
    assert "none is sent" in page.text()
    assert not (await site.shown(id))["has_authorization_header"]


async def test_pause_resume_rotate_and_delete(site: Site) -> None:
    made = await site.hook("/", name="Short-lived")
    page = await tab(site, Role.OWNER, f"/webhooks/{made['id']}")
    await page.press("Pause")
    assert "paused" in page.heading
    await did(site, "purchase", "cid", "pro_yearly")
    [waiting] = await site.settled(made["id"], "waiting")
    await page.open(f"/webhooks/{made['id']}/deliveries/{waiting['id']}")
    assert "until the webhook is resumed" in page.text()
    await page.open(f"/webhooks/{made['id']}")
    assert "once it is resumed" in page.text("#health")
    await page.press("Resume")
    assert "ok" in page.heading
    await site.settled(made["id"], "delivered")

    await page.press("Create new secret", {"The old secret signs too, for": "7 days"}, sure=True)
    secret = page.text(".secret")
    assert secret.startswith("whsec_")
    assert secret != made["signing_secret"]
    assert "two signatures" in page.text()
    await page.follow("Done")
    assert "the old secret signs too, until" in page.text()
    await page.press("Send Test Event")
    assert page.text("#answer")
    assert len(site.arrivals[-1].headers["webhook-signature"].split()) == 2

    await page.press("Delete webhook", sure=True)
    assert "Nothing more is sent" in page.notice
    assert "Short-lived" not in page.text()
    assert (await site.call("GET", made["id"])).status == 404


async def test_the_log_is_read_page_by_page_and_within_a_time(site: Site) -> None:
    id = (await site.hook("/", name="Busy"))["id"]
    for number in range(51):
        await did(site, "purchase", f"many_{number}", "pro_yearly")
    await site.settled(id, "delivered", 20)
    page = await tab(site, Role.VIEWER, f"/webhooks/{id}/deliveries")
    assert len(page.rows) == 50
    await page.follow("Older")
    [row] = page.rows
    assert "many_0" in row
    await page.press("Filter", {"Since (UTC)": "2027-01-16T00:00"})
    assert "No delivery matches" in page.text()
    await page.press("Filter", {"Until (UTC)": "2027-01-15T00:00"})
    assert "must be later" in page.alert


async def test_a_webhook_that_fails_or_was_paused_by_itself_is_announced(site: Site) -> None:
    broken = (await site.hook("/status/500", name="Broken", retry_schedule_seconds=[5] * 50))["id"]
    for number in range(3):
        await did(site, "purchase", f"unlucky_{number}", "pro_yearly")
    await failing(site, broken, 1)
    given_up, by_hand = [(await site.hook("/", name=name))["id"] for name in ("Given up", "By hand")]
    now = site.clock.now
    async with site.database.transaction() as connection:
        keys = {row["id"]: row["key"] for row in await connection.fetch("select id, key from webhooks")}
        await health.save_health(
            connection,
            {
                keys[given_up]: WebhookHealth(99, None, now - 6 * DAY, now - 5 * DAY, now),
                keys[by_hand]: WebhookHealth(3, None, now - 60_000, None, now),
            },
        )
    page = await tab(site, Role.VIEWER, "/webhooks")
    [first, last] = page.texts("p.notice")
    assert "The webhook \u2068Broken\u2069 fails. It has been failing since" in first
    assert "after failing for 6 days" in last
    await page.follow("Open the webhook", "p.notice")
    assert "failing" in page.heading
    assert "Repeated failures." in page.text()
    await site.call("POST", broken, {"enabled": False})


async def failed(site: Site, webhook: str, times: int) -> None:
    async def met() -> bool:
        return await failures(site, webhook) >= times

    await until(met, "the webhook did not fail often enough")


async def nothing_under_way(site: Site) -> None:
    """Wait until every attempt that has begun is recorded."""

    async def met() -> bool:
        leased = "select count(*) from lanes where lease_until > $1"
        return not await site.database.pool.fetchval(leased, site.clock.now)

    await until(met, "an attempt was not recorded")


async def test_a_failing_webhook_says_why_on_top_and_its_log_is_filtered_by_the_answer(site: Site) -> None:
    broken = (await site.hook("/status/503", name="Down", retry_schedule_seconds=[3600]))["id"]
    # The circuit opens after ten failures. Events after that are the newest, and wait without an attempt.
    for number in range(12):
        await did(site, "purchase", f"early_{number}", "pro_yearly")
    await failed(site, broken, 10)
    # The other two may have been sent before the circuit opened.
    await nothing_under_way(site)
    for number in range(10):
        await did(site, "purchase", f"late_{number}", "pro_yearly")
    page = await tab(site, Role.VIEWER, f"/webhooks/{broken}")
    assert set(page.texts(".deliveries tbody .tries")) == {"0"}
    for words in ("answered 503 instead of 200", "oops", "INITIAL_PURCHASE"):
        assert words in page.text("#failure")
    await page.follow("All deliveries with this answer", "#failure")
    assert page.value("HTTP status") == "503"
    tried = len(page.rows)
    assert 10 <= tried <= 12
    for asked, shown in (("5xx", tried), ("4xx", 0), ("none", 0), ("200", 0)):
        await page.press("Filter", {"HTTP status": asked})
        assert len(page.rows) == shown
    await page.press("Filter", {"HTTP status": "503", "Outcome": "Delivered"})
    assert "No delivery matches" in page.text()
    await page.press("Filter", {"Outcome": "Waiting", "Customer": "early_0"})
    assert len(page.rows) == 1
    await page.press("Filter", {"HTTP status": "6"})
    assert "a number such as 503, a class such as 5xx, or none" in page.alert

    # Nobody listens there: the page says that there was no answer, and the filter "none" finds it.
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{closed.getsockname()[1]}/"
        silent = (await site.hook("/", name="Gone", retry_schedule_seconds=[3600], url=url))["id"]
        await did(site, "purchase", "unheard", "pro_yearly")
        await failed(site, silent, 1)
    await page.open(f"/webhooks/{silent}")
    assert "connection refused" in page.text("#failure")
    await page.follow("All deliveries with this answer", "#failure")
    assert page.value("HTTP status") == "none"
    assert len(page.rows) == 1


async def test_what_waits_is_sent_now_and_a_replay_is_counted_first_and_stopped(site: Site) -> None:
    id = (await site.hook("/flaky/1", retry_schedule_seconds=[3600]))["id"]
    await did(site, "purchase", "impatient", "pro_yearly")
    await site.settled(id, "waiting", attempts=1)
    page = await tab(site, Role.DEVELOPER, f"/webhooks/{id}/deliveries?status=failing")
    assert "waiting" in page.text("tbody tr")
    await page.open(f"/webhooks/{id}")
    assert "Failing" in page.text("#health")
    await page.press("Send all waiting now")
    assert page.notice == "Everything that waits is sent now."
    await site.settled(id, "delivered")

    await page.press("Count them")
    assert page.notice == "There is nothing to send again."
    await page.follow("Back")
    await page.press("Count them", {"Everything that happened": True})
    assert "would be sent again." in page.notice
    await page.press("Start replay")
    await page.press("Stop")
    assert "Stopped. What was not sent yet" in page.text()
    done = await audit.entries(site.database, site.project_id, limit=3)
    assert [one.action for one in done] == ["webhook.replay_stopped", "webhook.replayed", "webhook.waiting_sent"]


async def test_what_waits_at_a_paused_webhook_is_sent_when_it_is_resumed(site: Site) -> None:
    id = (await site.hook("/flaky/1", retry_schedule_seconds=[3600]))["id"]
    await did(site, "purchase", "patient", "pro_yearly")
    await site.settled(id, "waiting", attempts=1)
    page = await tab(site, Role.DEVELOPER, f"/webhooks/{id}")
    await page.press("Pause")
    await page.press("Send all waiting now")
    assert page.notice == "It is sent when the webhook is resumed."


async def test_a_stop_that_was_interrupted_can_be_pressed_again(site: Site) -> None:
    await did(site, "purchase", "halted", "pro_yearly")
    id = (await site.hook(enabled=False))["id"]
    page = await tab(site, Role.DEVELOPER, f"/webhooks/{id}")
    await page.press("Count them", {"Everything that happened": True})
    await page.press("Start replay")
    while await requeue.work_off(site.database, site.clock.now):
        pass
    # As if the process had ended before it took anything back.
    await site.database.pool.execute("update replays set stopped_at = created_at")
    await page.open(page.path)
    assert "press Stop again" in page.text()
    await page.press("Stop")
    assert "Stopped. What was not sent yet" in page.text()
    assert not page.soup.select("form[action$='/stop']")
    assert (await site.shown(id))["health"]["waiting"] == 0


async def test_many_webhooks_are_listed_page_by_page(site: Site) -> None:
    for number in range(11):
        await site.hook("/", name=f"Number {number}.")
    person = await somebody(site, Role.VIEWER)
    first = (await person.get(site.path("/webhooks").removeprefix(site.url))).body.decode()
    assert [f"Number {number}." in first for number in (0, 9, 10)] == [True, True, False]
    [more] = re.findall(r'href="([^"]+after=[^"]+)"', first)
    second = (await person.get(more)).body.decode()
    assert [f"Number {number}." in second for number in (0, 9, 10)] == [False, False, True]
    assert 'rel="next"' not in second


async def test_the_webhooks_of_another_project_are_out_of_reach(site: Site) -> None:
    id = (await site.hook("/"))["id"]
    other = await projects.create_project(site.database, "Elsewhere", site.clock.now)
    person = await somebody(site, None)
    await team.add_member(site.database, other.id, person.email, Role.OWNER, site.clock.now)
    own = f"/dashboard/projects/{other.id}/webhooks"
    assert (await person.get(own)).status == 200
    assert (await person.get(f"{own}/new")).status == 200
    for path in (f"{own}/{id}", f"{own}/{id}/edit", f"{own}/{id}/deliveries"):
        assert (await person.get(path)).status == 404
    for action in ("pause", "test", "edit", "rotate", "delete", "replays", "send-waiting"):
        form = {"confirm": "yes", "type": "TEST", "overlap": "0", "since": "2027-01-01", "status": "all"}
        assert (await person.post(f"{own}/{id}/{action}", form)).status == 404, action
    assert (await site.shown(id))["enabled"]


async def test_somebody_sends_events_to_slack_and_sees_the_preview_first(site: Site) -> None:
    page = await tab(site, Role.DEVELOPER, "/webhooks/new")
    await page.follow("Slack")
    await page.press("Add", {"Name": "Sales", "Webhook URL": "https://example.com/not-slack"})
    assert "Webhook URL is not in its usual form" in page.alert
    secret = "https://hooks.slack.com/services/T0/B0/open-sesame"
    await page.press("Add", {"Webhook URL": secret})
    assert "Slack" in page.text("#content")
    assert "open-sesame" not in page.html
    await page.follow("Edit")
    await page.press("Preview", {})
    assert "sample_user renewed pro_monthly for 9.99 USD" in page.text("#content")
    assert "open-sesame" not in page.html


async def test_a_template_that_fails_is_shown_again_with_the_reason(site: Site) -> None:
    page = await tab(site, Role.DEVELOPER, "/webhooks/new?to=custom")
    given = {"Name": "Own", "URL": site.address + "/own", "Body": '{"a": "{{ event.nonsense }}"}'}
    await page.press("Add", given)
    assert "An event has no field 'nonsense'" in page.alert
    assert page.value("Body") == given["Body"]
    await page.press("Add", {"Body": "[" * 1_100 + "]" * 1_100})
    assert "The template is not valid JSON" in page.alert
    await page.press("Add", {"Body": '{"a": "{{ event.type }}"}'})
    await page.press("Send Test Event", {"Event type": "RENEWAL"})
    assert "200" in page.text("#answer")
    assert site.arrivals[-1].body == b'{"a":"RENEWAL"}'
