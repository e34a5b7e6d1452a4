"""Alerts and reports over a real SMTP server, and to a receiver that takes messages as Slack does."""

import asyncio
import re
import zlib
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import json
from structlog.testing import capture_logs

from latchkey.domain.instants import DAY, HOUR
from latchkey.domain.problem import ProblemKind
from latchkey.domain.refusal import Invalid, NotFound, Refusal
from latchkey.subjects.accounts.usecases import team
from latchkey.subjects.alerts import rules
from latchkey.subjects.alerts.rules import CALM, PATIENCE
from latchkey.subjects.alerts.usecases import EVERY, Alerts
from latchkey.subjects.charts.usecases import FactCache
from latchkey.subjects.mail.rules import MailText, bars, sparkline, written
from latchkey.subjects.mail.usecases import LEASE
from latchkey.subjects.purchase_intake.storage.connection_rows import note_notified
from latchkey.subjects.purchase_intake.usecases.journal import StoreHealth, standing_of
from tests.http.doings import did
from tests.stores.external.bodies import purchase
from tests.subjects.alerts.alerting import SENDER, URL, Alerting, alerting, clock_role
from tests.subjects.mail.mail_server import MailServer

SETTLED = PATIENCE + EVERY
OVER = CALM + 2 * EVERY


def text_of(mail: EmailMessage, kind: str = "plain") -> str:
    body = mail.get_body((kind,))
    assert body is not None
    return str(body.get_content()).replace("\r\n", "\n")


async def test_one_mail_when_a_webhook_fails_and_one_when_it_is_over(shop: Alerting, server: MailServer) -> None:
    await shop.member()
    id = await shop.webhook("Broken")
    await shop.fails(id, since=shop.post.clock.now)
    await shop.pass_time(PATIENCE - EVERY)
    assert server.mails == []
    await shop.pass_time(DAY)
    [began] = server.mails
    assert server.recipients == ["ada@example.com"]
    assert (began["From"], began["To"]) == (SENDER, "ada@example.com")
    assert began["Subject"] == "Demo: The webhook Broken fails."
    assert "It has been failing since 2027-01-15 08:00 UTC." in text_of(began)
    assert f"{URL}/dashboard/projects/{shop.post.project_id}/webhooks/{id}" in text_of(began)
    await shop.fails(id, since=None)
    await shop.pass_time(DAY)
    [_, ended] = server.mails
    assert ended["Subject"] == "Demo, over: The webhook Broken fails."
    await shop.fails(id, since=shop.post.clock.now)
    await shop.pass_time(SETTLED)
    assert len(server.mails) == 3
    assert await shop.waiting() == 0


async def test_only_what_a_member_has_chosen_is_sent(shop: Alerting, server: MailServer) -> None:
    await shop.member("ada", [ProblemKind.WEBHOOK])
    await shop.member("ben", [ProblemKind.STORE])
    await shop.member("eve", [])
    await shop.fails(await shop.webhook(), since=shop.post.clock.now)
    await shop.pass_time(DAY)
    assert server.recipients == ["ada@example.com"]


async def test_who_chooses_it_while_a_problem_lasts_is_not_told_of_its_end(shop: Alerting, server: MailServer) -> None:
    await shop.member("ada")
    id = await shop.webhook()
    await shop.fails(id, since=shop.post.clock.now)
    await shop.pass_time(SETTLED)
    await shop.member("ben")
    await shop.fails(id, since=None)
    await shop.pass_time(OVER)
    assert server.recipients == ["ada@example.com"] * 2


@pytest.mark.parametrize("leaves", ["the project", "alerts"])
async def test_who_has_left_gets_nothing_more_not_even_what_waits(
    shop: Alerting, server: MailServer, leaves: str
) -> None:
    ada, project_id = await shop.member(), shop.post.project_id
    id = await shop.webhook()
    server.refuses = "451 later"
    await shop.fails(id, since=shop.post.clock.now)
    await shop.pass_time(SETTLED)
    assert await shop.waiting() == 1
    if leaves == "alerts":
        await shop.alerts.subscribe(project_id, ada, (), "never", "mail", "", shop.post.clock.now)
    else:
        await team.remove_member(shop.post.database, project_id, ada)
    server.refuses = ""
    await shop.pass_time(DAY)
    assert (server.mails, await shop.waiting()) == ([], 0)
    assert await shop.post.database.pool.fetchval("select count(*) from alert_watches") == 0


async def test_what_could_not_be_sent_is_tried_again_in_order(shop: Alerting, server: MailServer) -> None:
    await shop.member()
    id = await shop.webhook()
    server.refuses = "451 ada@example.com, later"
    await shop.fails(id, since=shop.post.clock.now)
    with capture_logs() as logs:
        await shop.pass_time(SETTLED)
        await shop.fails(id, since=None)
        await shop.pass_time(OVER)
    assert {log["error"] for log in logs if log["event"] == "mail not sent"} == {"the server answers 451"}
    assert "ada@example.com" not in str(logs)
    server.refuses = ""
    await shop.pass_time(HOUR)
    assert [mail["Subject"].partition(":")[0] for mail in server.mails] == ["Demo", "Demo, over"]


async def test_what_cannot_be_sent_for_days_is_given_up(shop: Alerting, server: MailServer) -> None:
    await shop.member()
    server.refuses = "451 later"
    await shop.fails(await shop.webhook(), since=shop.post.clock.now)
    await shop.pass_time(SETTLED)
    shop.post.clock.now += 4 * DAY
    await shop.work()
    assert (server.mails, await shop.waiting()) == ([], 0)


async def test_several_processes_tell_once(shop: Alerting, server: MailServer, tmp_path: Path) -> None:
    for name in ("ada", "ben", "eve"):
        await shop.member(name)
    await shop.fails(await shop.webhook(), since=shop.post.clock.now)
    async with clock_role(shop.post, tmp_path / "other") as other:
        both = [shop, replace(shop, alerts=other)]
        for _ in range(6):
            shop.post.clock.now += EVERY
            await asyncio.gather(*(one.work() for one in both for _ in range(2)))
    assert sorted(server.recipients) == ["ada@example.com", "ben@example.com", "eve@example.com"]


async def test_a_look_that_took_too_long_saves_nothing(shop: Alerting, server: MailServer, tmp_path: Path) -> None:
    """It has seen an older state than the one that was saved since."""
    await shop.member()
    id, post = await shop.webhook(), shop.post
    await shop.fails(id, since=post.clock.now)
    await shop.pass_time(SETTLED)
    saw, goes_on = asyncio.Event(), asyncio.Event()

    class Slow(Alerts, frozen=True):
        async def problems(self, project_id: str, standing: StoreHealth, now: int, kinds: Any = ()) -> Any:
            found = await super().problems(project_id, standing, now, kinds)
            saw.set()
            await goes_on.wait()
            return found

    slow = Slow(**msgspec.structs.asdict(shop.alerts))
    post.clock.now += EVERY
    looking = asyncio.create_task(slow.look_next(post.clock.now))
    await saw.wait()
    await shop.fails(id, since=None)
    await shop.pass_time(OVER)
    goes_on.set()
    assert await looking
    await shop.pass_time(DAY)
    assert len(server.mails) == 2


async def test_a_process_that_dies_before_sending_leaves_it_to_another(shop: Alerting, server: MailServer) -> None:
    await shop.member()
    await shop.fails(await shop.webhook(), since=shop.post.clock.now)
    shop.post.clock.now += PATIENCE
    await shop.alerts.look_next(shop.post.clock.now)
    shop.post.clock.now += PATIENCE
    assert await shop.alerts.look_next(shop.post.clock.now)
    # Taken, and never sent.
    assert await shop.post.database.pool.execute(f"update outgoing_mails set due_at = due_at + {LEASE}") == "UPDATE 1"
    await shop.work()
    assert server.mails == []
    await shop.pass_time(LEASE)
    await shop.pass_time(DAY)
    assert len(server.mails) == 1


async def test_each_mail_can_be_stopped_with_one_click(shop: Alerting, server: MailServer) -> None:
    ada = await shop.member(report="daily")
    await shop.fails(await shop.webhook(), since=shop.post.clock.now)
    await shop.pass_time(DAY)
    assert len(server.mails) == 2
    for mail in server.mails:
        assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
        [link] = re.findall(rf"^<({re.escape(URL)}/dashboard/alerts/stop/[\w-]+)>$", mail["List-Unsubscribe"])
        assert f"Stop these mails: {link}" in text_of(mail)
        assert f'href="{link}"' in text_of(mail, "html")
        token = link.rpartition("/")[2]
        assert shop.alerts.stopped_by(token) == (ada, shop.post.project_id)
        assert "ada" not in token
    for wrong in (token[:-4] + "AAAA", token[1:], "", "x", "ä"):
        with pytest.raises(NotFound):
            await shop.alerts.stop(wrong)
    assert (await shop.alerts.subscription(shop.post.project_id, ada)).report == "daily"
    for _ in range(2):
        await shop.alerts.stop(token)
    assert (await shop.alerts.subscription(shop.post.project_id, ada)).report == "never"


def test_a_long_address_to_stop_is_in_one_piece_and_what_names_contain_adds_no_header() -> None:
    stop = f"{URL}/dashboard/alerts/stop/{'t' * 200}"
    word = "=?utf-8?q?=0D=0ABcc:_x@example.com?="
    letter = MailText(subject=f"Dé\r\nBcc: x@example.com {word}", words="<b>é</b>\r\n.\r\n")
    raw = written(letter, SENDER, "ada@example.com", "<1@x>", 0, stop=stop, settings=URL).as_bytes()
    assert f"\r\nList-Unsubscribe: <{stop}>\r\n".encode() in raw
    assert b"\r\nBcc" not in raw
    assert raw.isascii()
    assert b"<b>" not in raw.partition(b"text/html")[2]


async def test_slack_gets_the_same_and_its_address_is_a_secret(shop: Alerting) -> None:
    with capture_logs() as logs:
        address = f"{shop.post.address}/?token=hush-hush"
        ada = await shop.member(slack=address, report="weekly")
        await shop.fails(await shop.webhook("<b>&</b>"), since=shop.post.clock.now)
        await shop.pass_time(SETTLED)
    [arrival] = shop.post.arrivals
    body = json.decode(arrival.body)
    assert body["text"] == "Demo: The webhook &lt;b&gt;&amp;&lt;/b&gt; fails."
    assert "/webhooks/" in body["blocks"][0]["text"]["text"]
    assert "webhook-signature" not in arrival.headers
    stored = await shop.post.database.pool.fetchval("select slack from alert_subscriptions")
    assert b"hush" not in bytes(stored)
    saved = await shop.alerts.subscription(shop.post.project_id, ada)
    assert "hush" not in f"{logs}{saved!r}"
    # It stays when something else is changed, and goes when mails are wanted.
    now, project_id = shop.post.clock.now, shop.post.project_id
    await shop.alerts.subscribe(project_id, ada, ["store"], "never", "slack", "", now)
    assert (await shop.alerts.subscription(project_id, ada)).slack == saved.slack
    await shop.alerts.subscribe(project_id, ada, ["store"], "never", "mail", "", now)
    with pytest.raises(Invalid, match="incoming webhook"):
        await shop.alerts.subscribe(project_id, ada, ["store"], "never", "slack", "", now)


async def test_slack_that_fails_is_tried_again_and_one_that_is_gone_is_not(shop: Alerting) -> None:
    await shop.member("ada", slack=f"{shop.post.address}/status/503")
    await shop.member("ben", slack=f"{shop.post.address}/status/404")
    await shop.fails(await shop.webhook(), since=shop.post.clock.now)
    await shop.pass_time(SETTLED)
    assert await shop.waiting() == 1
    await shop.pass_time(HOUR)
    paths = [arrival.path for arrival in shop.post.arrivals]
    assert paths.count("/status/404") == 1
    assert paths.count("/status/503") > 2


@pytest.mark.parametrize(
    "address",
    [
        "http://hooks.slack.com/x",
        "https://10.0.0.1/x",
        "https://localhost/x",
        "https://[::1]/",
        "hooks",
        "https://" + "a" * 2048,
    ],
)
async def test_an_address_inside_is_refused_when_it_is_saved(shop: Alerting, address: str) -> None:
    strict = msgspec.structs.replace(shop.alerts.settings, webhook_allow_networks=())
    outside = msgspec.structs.replace(shop.alerts, settings=strict)
    ada = await shop.member(kinds=())
    with pytest.raises(Invalid):
        await outside.subscribe(shop.post.project_id, ada, ["store"], "never", "slack", address, 0)
    assert await shop.post.database.pool.fetchval("select count(*) from alert_subscriptions") == 0


async def test_an_address_that_became_internal_is_refused_when_it_is_sent_to(shop: Alerting) -> None:
    ada = await shop.member(slack=f"{shop.post.address}/")
    inside = shop.alerts.sender._resolver
    inside._allowed = ()
    await shop.alerts.send_test(shop.post.project_id, ada, shop.post.clock.now)
    await shop.work()
    assert (shop.post.arrivals, await shop.waiting()) == ([], 1)


async def test_of_many_tests_of_a_member_one_is_sent_at_a_time(shop: Alerting, server: MailServer) -> None:
    ada, ben = await shop.member("ada"), await shop.member("ben")

    async def tested(account_id: str) -> None:
        await shop.alerts.send_test(shop.post.project_id, account_id, shop.post.clock.now)

    for turn in range(1, 6):
        many = await asyncio.gather(*(tested(ada) for _ in range(4)), return_exceptions=True)
        assert [str(one) for one in many if one is not None] == ["A test message is on its way already."] * 3
        await tested(ben)
        await shop.work()
        assert sorted(server.recipients) == ["ada@example.com"] * turn + ["ben@example.com"] * turn


async def test_a_weekly_report_has_the_numbers_of_the_overview_and_a_picture(
    shop: Alerting, server: MailServer
) -> None:
    await shop.member(kinds=(), report="weekly")
    for user in ("a", "b", "c"):
        await did(shop.post, "purchase", user, "pro_monthly")
    # A Friday; the report is due on Monday the 18th.
    await shop.pass_time(2 * DAY)
    assert server.mails == []
    await shop.pass_time(2 * DAY)
    [report] = server.mails
    assert report["Subject"] == "Demo: 2027-01-11 to 2027-01-17"
    text = text_of(report)
    assert "Revenue: $29.97 ▲ from 0" in text
    assert "Active subscriptions: 3 ▲ from 0" in text
    assert "in the sandbox" in text
    assert 'src="cid:chart"' in text_of(report, "html")
    [picture] = [part for part in report.walk() if part.get_content_type() == "image/png"]
    assert picture["Content-ID"] == "<chart>"
    pixels = picture.get_content()
    assert pixels.startswith(b"\x89PNG\r\n\x1a\n")
    assert pixels.endswith(b"IEND" + zlib.crc32(b"IEND").to_bytes(4))
    await shop.pass_time(5 * DAY)
    assert len(server.mails) == 1
    await shop.pass_time(2 * DAY)
    assert [mail["Subject"] for mail in server.mails[1:]] == ["Demo: 2027-01-18 to 2027-01-24"]


async def test_a_report_that_was_missed_comes_once(shop: Alerting, server: MailServer) -> None:
    await shop.member(kinds=(), report="daily")
    shop.post.clock.now += 10 * DAY
    await shop.work()
    [report] = server.mails
    assert report["Subject"] == "Demo: 2027-01-24"


async def test_slack_gets_a_report_as_a_line(shop: Alerting) -> None:
    await shop.member(kinds=(), report="daily", slack=f"{shop.post.address}/")
    await did(shop.post, "purchase", "a", "pro_monthly")
    await shop.pass_time(DAY)
    [arrival] = shop.post.arrivals
    text = json.decode(arrival.body)["blocks"][0]["text"]["text"]
    assert "Revenue: *$9.99* ▲ from 0" in text
    assert re.search("Revenue by day: ▁{27}█", text)


async def test_without_mail_only_slack_can_be_chosen(database: Any, tmp_path: Path) -> None:
    async with alerting(database, tmp_path, None) as shop:
        with pytest.raises(Refusal, match="LATCHKEY_SMTP_HOST"):
            await shop.member()
        await shop.member("ben", slack=f"{shop.post.address}/", report="daily")
        await shop.pass_time(DAY)
        assert len(shop.post.arrivals) == 1


async def found(shop: Alerting) -> dict[str, str]:
    now, project_id = shop.post.clock.now, shop.post.project_id
    problems = await shop.alerts.problems(project_id, await standing_of(shop.alerts.stores, project_id), now)
    return {problem.id: problem.words for problem in problems}


async def test_a_certificate_that_is_about_to_end_is_a_problem(shop: Alerting) -> None:
    assert await found(shop) == {}
    shop.post.clock.now += 3_650 * DAY
    assert list(await found(shop)) == ["certificate"]


async def test_a_store_that_stops_sending_is_a_problem(shop: Alerting) -> None:
    post = shop.post
    made = await post.client.post(f"/v2/projects/{post.project_id}/apps", {"name": "Notes", "type": "app_store"})
    assert made.status in (200, 201), made
    app_id = made.json()["id"]
    rows = (
        "update store_connections set credentials = 'x', check_result = 'ok', notified_days = $1, last_notified_at = $2"
    )
    await found(shop)
    await post.database.pool.execute(rows, 14, post.clock.now - 35 * HOUR)
    assert await found(shop) == {}
    post.clock.now += HOUR
    assert list(await found(shop)) == [f"silence/{app_id}"]
    await post.database.pool.execute(rows, 13, post.clock.now - 35 * DAY)
    assert await found(shop) == {}


@given(st.lists(st.floats(-1e9, 1e9), max_size=60))
@example([2.225073858507e-311])
def test_a_picture_has_every_pixel_whatever_the_numbers(values: list[float]) -> None:
    drawn = bars(values, 120, 40)
    compressed = drawn.partition(b"IDAT")[2].partition(b"IEND")[0][:-8]
    assert len(zlib.decompress(compressed)) == 40 * 121
    assert len(sparkline(values)) == len(values)


async def test_two_who_choose_at_once_are_both_told(shop: Alerting, server: MailServer) -> None:
    """Also while the last look ends because nobody wanted one."""
    for number in range(5):
        ada = await shop.member(f"ada{number}")
        await shop.alerts.subscribe(shop.post.project_id, ada, (), "never", "mail", "", shop.post.clock.now)
        shop.post.clock.now += EVERY
        await asyncio.gather(shop.alerts.look_next(shop.post.clock.now), shop.member(f"ben{number}"))
        assert await shop.post.database.pool.fetchval("select count(*) from alert_watches") == 1
        await shop.alerts.subscribe(
            shop.post.project_id,
            await shop.post.database.pool.fetchval("select account_id from alert_subscriptions"),
            (), "never", "mail", "", shop.post.clock.now,
        )  # fmt: skip


async def test_days_with_notifications_are_counted_in_a_row(shop: Alerting) -> None:
    post = shop.post
    made = await post.client.post(f"/v2/projects/{post.project_id}/apps", {"name": "Notes", "type": "app_store"})
    app_id = made.json()["id"]
    await found(shop)
    counted = []
    # The 15th twice, the 16th, the 17th, a gap, the 20th.
    for day in (0, 0.1, 1, 2, 5, 6):
        async with post.database.acquire() as connection:
            await note_notified(connection, post.project_id, app_id, post.clock.now + int(day * DAY))
        counted.append(await post.database.pool.fetchval("select notified_days from store_connections"))
    assert counted == [1, 1, 2, 3, 1, 2]


async def test_a_day_without_revenue_is_a_problem_that_the_overview_has_too(
    shop: Alerting, server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "FEWEST_PAYMENTS", 1)
    post = shop.post
    await shop.member(kinds=[ProblemKind.REVENUE])
    # A Friday, at eight: the day before is judged. On each Thursday before it something was sold.
    for week in range(1, 9):
        at = post.clock.now - 7 * week * DAY - DAY
        body = purchase(purchased_at=at, store_purchase_identifier=f"week {week}")
        reply = await post.client.post(
            f"/v2/projects/{post.project_id}/purchases", {**body, "app_user_id": f"user{week}", "as_of": at}
        )
        assert reply.status == 200, reply
    [(id, words)] = (await found(shop)).items()
    assert id == "numbers/revenue"
    assert words.startswith("$0.00 on 2027-01-14. Usual on this weekday: $")
    await shop.pass_time(SETTLED)
    [began] = server.mails
    assert began["Subject"] == "Demo: Revenue is out of the usual range."
    # Charts that cannot be read end no alert, and other ones go on.
    with monkeypatch.context() as patched, capture_logs() as logs:
        patched.setattr(FactCache, "facts", broken)
        await shop.member("ben")
        await shop.fails(await shop.webhook(), since=post.clock.now)
        await shop.pass_time(OVER)
    assert {line["event"] for line in logs if line["log_level"] == "error"} == {"a look did without the numbers"}
    assert [mail["Subject"] for mail in server.mails[1:]] == ["Demo: The webhook Broken fails."]
    # The next day is a Friday, on which nothing is sold.
    await shop.pass_time(DAY)
    assert [mail["Subject"].partition(":")[0] for mail in server.mails] == ["Demo", "Demo", "Demo, over"]


async def broken(*_: object) -> None:
    raise OSError("the disk has failed")
