"""Destinations that are a mailbox: over a real SMTP server, through the real queue."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.domain.instants import HOUR, MINUTE
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.accounts.usecases import team
from latchkey.subjects.webhooks.delivery.destination import Outgoing
from latchkey.subjects.webhooks.delivery.sending import mailbox as sending_mailbox
from latchkey.subjects.webhooks.delivery.sending.mailbox import mailbox_of
from latchkey.subjects.webhooks.usecases.registry import Registry
from tests.http.doings import did
from tests.http.receiving import SECRET_KEY, Post, delivering, posting
from tests.subjects.mail.mail_server import PASSWORD, USER, MailServer

TO = "ada@example.com"
SENDER = "Latchkey <no-reply@example.com>"


@pytest.fixture
async def mailing(database: Database, tmp_path: Path, server: MailServer) -> AsyncIterator[Post]:
    """A shop whose service sends mail, with Ada in its team."""
    own: dict[str, Any] = {
        "smtp_host": "127.0.0.1",
        "smtp_port": server.port,
        "smtp_user": USER,
        "smtp_password": PASSWORD,
        "smtp_extra_ca": server.certificates.authority,
        "mail_from": SENDER,
        "mail_domains": ("Sales.example.com",),
        "public_url": "https://latchkey.example.com",
    }
    async with posting(database, tmp_path, **own) as post, delivering(post):
        await team.add_member(database, post.project_id, TO, Role.VIEWER, post.clock.now)
        yield post


async def new(post: Post, to: str) -> Any:
    return await post.call("POST", "", {"name": "Mine", "destination": {"preset": "email", "settings": {"to": to}}})


async def test_an_event_arrives_as_a_mail(mailing: Post, server: MailServer) -> None:
    made = (await new(mailing, "Ada@Example.com")).json()
    assert made["url"] == f"mailto:{TO}"
    await did(mailing, "purchase", "eve", "pro_monthly")
    [delivered] = await mailing.settled(made["id"], "delivered")
    [mail] = server.mails
    assert server.recipients == [TO]
    line = "eve bought pro_monthly for 9.99 USD (sandbox)"
    assert (mail["From"], mail["To"], mail["Subject"]) == (SENDER, TO, line)
    assert mail.get_content_type() == "text/plain"
    text = mail.get_content().replace("\r\n", "\n")
    assert text.startswith(
        f"{line}\n\nhttps://latchkey.example.com/dashboard/projects/{mailing.project_id}/customers/eve"
    )
    assert f"/webhooks/{made['id']}" in text
    shown = await mailing.shown(f"{made['id']}/deliveries/{delivered['id']}")
    assert (shown["response_status"], shown["error"], shown["request_body"]["subject"]) == (250, None, line)
    assert shown["attempts"][0]["request_headers"]["To"] == TO
    assert (await mailing.call("POST", f"{made['id']}/test", {"type": "RENEWAL"})).json()["delivered"]
    assert len(server.mails) == 2


async def test_a_name_adds_no_header_and_no_recipient(mailing: Post, server: MailServer) -> None:
    id = (await new(mailing, TO)).json()["id"]
    await did(mailing, "purchase", "eve\u2028Bcc: mallory@example.com", "pro_monthly")
    await mailing.settled(id, "delivered")
    webhook = await Registry(mailing.database, Sealer(SECRET_KEY)).load(mailing.project_id, id)
    mailbox = mailbox_of(mailing.database, mailing.settings)
    assert mailbox is not None
    body = json.encode({"subject": "eve\r\nBcc: mallory@example.com\0", "text": "x\r\n.\r\nMAIL FROM:<x>"})
    assert (await mailbox.send(webhook, "evt_1", Outgoing(f"mailto:{TO}", body), mailing.clock.now)).error is None
    for mail in server.mails:
        assert mail["Bcc"] is None
        assert mail["Subject"].strip().startswith("eve Bcc: mallory@example.com")
    assert server.recipients == [TO, TO]


@pytest.mark.parametrize(
    "user",
    [
        "=?utf-8?b?eQ0KQmNjOiBldmlsQGV2aWwuY29tDQoNCmJvZHk=?=",
        "=?utf-8?q?a=0D=0ABcc:_v@evil.org=0D=0AContent-Type:_text=2Fhtml=0D=0A=0D=0A<h1>Pay<=2Fh1>?=",
    ],
)
async def test_an_encoded_word_in_a_name_stays_a_word(mailing: Post, server: MailServer, user: str) -> None:
    id = (await new(mailing, TO)).json()["id"]
    await did(mailing, "purchase", user, "pro_monthly")
    [delivered] = await mailing.settled(id, "delivered")
    [mail] = server.mails
    assert (mail["Bcc"], mail.get_content_type()) == (None, "text/plain")
    assert mail.get_content().startswith(user)
    assert mail["Date"].datetime.timestamp() * 1000 == mailing.clock.now // 1000 * 1000
    assert mail["Subject"] == f"{user} bought pro_monthly for 9.99 USD (sandbox)"
    sent = (await mailing.shown(f"{id}/deliveries/{delivered['id']}"))["attempts"][0]["request_headers"]
    assert sent["Subject"].startswith(user)


async def test_the_log_forgets_the_subject_of_a_mail_about_an_erased_customer(
    mailing: Post, server: MailServer
) -> None:
    id = (await new(mailing, TO)).json()["id"]
    server.refuses = "550 no eve here"
    await did(mailing, "purchase", "eve", "pro_monthly")
    [tried] = await mailing.settled(id, "waiting", attempts=1)
    assert (await mailing.client.request("DELETE", "/v1/subscribers/eve")).status == 200
    shown = await mailing.shown(f"{id}/deliveries/{tried['id']}")
    removed = "removed when a customer was erased"
    [attempt] = shown["attempts"]
    assert (shown["error"], attempt["error"], attempt["request_headers"]) == (removed, removed, {})
    assert (attempt["response_headers"], attempt["response_body"]) == (None, None)
    assert "eve" not in shown["request_body"]["subject"]


async def test_a_failing_mail_server_is_an_attempt_that_failed_and_is_retried(
    mailing: Post, server: MailServer
) -> None:
    id = (await new(mailing, TO)).json()["id"]
    server.refuses = f"451 {TO} with {PASSWORD}: later"
    await did(mailing, "purchase", "eve", "pro_monthly")
    [waiting] = await mailing.settled(id, "waiting", attempts=1)
    assert waiting["error"] == "the server answers 451"
    server.refuses = ""
    await mailing.later(HOUR)
    [delivered] = await mailing.settled(id, "delivered")
    shown = await mailing.shown(f"{id}/deliveries/{delivered['id']}")
    assert PASSWORD not in str(shown)
    assert len(server.mails) == 1


async def test_mails_that_were_not_sent_do_not_use_up_the_hour(
    mailing: Post, server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending_mailbox, "MOST", 3)
    id = (await new(mailing, TO)).json()["id"]
    server.refuses = "451 later"
    await did(mailing, "purchase", "eve", "pro_monthly")
    for attempt in range(1, 5):
        await mailing.settled(id, "waiting", attempts=attempt)
        await mailing.later(5 * MINUTE)
    server.refuses = ""
    await mailing.later(20 * MINUTE)
    await mailing.settled(id, "delivered")
    assert len(server.mails) == 1


@pytest.mark.parametrize("to", ["stranger@elsewhere.com", "ada@example.com.evil.com", "x@more.sales.example.com"])
async def test_mails_go_to_members_and_allowed_domains_only(mailing: Post, to: str) -> None:
    reply = await new(mailing, to)
    assert (reply.status, reply.json()["param"]) == (422, "destination.settings.to")
    assert "members of this project" in reply.json()["message"]
    assert (await new(mailing, "team@sales.example.com")).status == 201


@pytest.mark.parametrize("to", ["a b@example.com", "ada@example.com,eve@example.com", "ada@example.com\r\nBcc: x@y.z"])
async def test_what_is_no_address_is_refused(mailing: Post, to: str) -> None:
    reply = await new(mailing, to)
    assert (reply.status, reply.json()["param"]) == (422, "destination.settings.to")


async def test_a_member_who_has_left_gets_no_more_mail(mailing: Post, server: MailServer) -> None:
    id = (await new(mailing, TO)).json()["id"]
    [ada] = [one.account for one in await team.members(mailing.database, mailing.project_id) if one.account.email == TO]
    await team.remove_member(mailing.database, mailing.project_id, ada.id)
    await did(mailing, "purchase", "eve", "pro_monthly")
    [waiting] = await mailing.settled(id, "waiting", attempts=1)
    assert waiting["error"].startswith("Mails go to members")
    assert server.mails == []


async def test_an_address_gets_few_mails_in_an_hour(
    mailing: Post, server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending_mailbox, "MOST", 4)
    ids = [(await new(mailing, TO)).json()["id"] for _ in range(2)]
    for user in ("a", "b", "c"):
        await did(mailing, "purchase", user, "pro_monthly")
        for id in ids:
            await mailing.settled(id, "delivered", ord(user) - 96)
    assert len(server.mails) == 4
    attempts = await mailing.database.pool.fetch("select response_body from attempts where status is null")
    assert [bytes(row[0]).decode() for row in attempts] == [f"Not sent: {TO} has got 4 mails within an hour."] * 2
    await mailing.later(HOUR)
    await did(mailing, "purchase", "late", "pro_monthly")
    for id in ids:
        await mailing.settled(id, "delivered", 4)
    assert len(server.mails) == 6


async def test_without_mail_it_is_refused(post: Post) -> None:
    reply = await new(post, TO)
    assert (reply.status, reply.json()["param"]) == (422, "destination.preset")
    assert "LATCHKEY_SMTP_HOST" in reply.json()["message"]
    preview = await post.client.post(
        f"/v2/projects/{post.project_id}/integrations/destinations/preview",
        {"preset": "email", "settings": {"to": TO}},
    )
    assert set(json.decode(json.encode(preview.json()["items"][0]["body"]))) == {"subject", "text"}
