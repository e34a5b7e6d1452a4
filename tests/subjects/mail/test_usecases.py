"""Mails over a real SMTP server with real TLS, and into files: what they say, retries, limits, no secrets anywhere."""

import asyncio
import ipaddress
import re
from email import message_from_bytes
from email.charset import Charset
from email.header import decode_header, make_header
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from latchkey.database.pool import Database
from latchkey.domain.instants import DAY, HOUR
from latchkey.domain.refusal import Invalid
from latchkey.now import real_now
from latchkey.process.local_ca.authority import LocalCertificates, ensure_certificates
from latchkey.subjects.accounts.rules import ADDRESS, Role
from latchkey.subjects.accounts.usecases import accounts
from latchkey.subjects.accounts.usecases.sessions import TooManyGuesses
from latchkey.subjects.accounts.usecases.team import add_member
from latchkey.subjects.alerts import storage as alerts
from latchkey.subjects.mail.rules import OutgoingMail, new_message, written
from latchkey.subjects.mail.usecases import (
    FIRST_PAUSE,
    TO_ONE,
    Mail,
    MailFolder,
    MailKind,
    NotSentError,
    Security,
    SmtpServer,
    Way,
    add_message,
    letter,
    run_mail,
    send_next,
)
from latchkey.subjects.projects.usecases import create_project
from tests.looking_out import looking_out
from tests.patience import until
from tests.subjects.mail.mail_server import PASSWORD, mail_server

NOW = 1_800_000_000_000
URL = "https://latchkey.example.com"
SENDER = "Latchkey <no-reply@example.com>"
HERE = "192.0.2.1"


def mail_by(database: Database, way: Way) -> Mail:
    return Mail(database, way, SENDER, URL)


async def waiting(database: Database) -> int:
    count: int = await database.pool.fetchval("select count(*) from outgoing_mails")
    return count


def link_in(text: str) -> str:
    (token,) = set(re.findall(re.escape(URL) + r"/dashboard/invitations/([\w-]{43})(?![\w-])", text))
    return str(token)


@pytest.mark.parametrize("security", ["starttls", "tls", "none"])
async def test_an_invitation_arrives_and_its_link_works_once(
    database: Database, certificates: LocalCertificates, security: Security
) -> None:
    ada = await accounts.create_account(database, "ada@example.com", NOW)
    async with mail_server(certificates, security) as server:
        way = server.way()
        assert "takes mail" in await asyncio.to_thread(way.check)
        mail = mail_by(database, way)
        await mail.add(MailKind.INVITATION, ada.email, NOW)
        assert await send_next(mail.database, mail.send, lambda: NOW)
        assert not await send_next(mail.database, mail.send, lambda: NOW)
    [made] = server.mails
    assert server.recipients == [ada.email]
    assert (made["From"], made["To"], made["Subject"]) == (SENDER, ada.email, "Your invitation to Latchkey")
    plain, html = (made.get_body((kind,)) for kind in ("plain", "html"))
    assert plain is not None
    assert html is not None
    token = link_in(plain.get_content())
    assert link_in(html.get_content()) == token
    await accounts.accept_invitation(database, token, "correct horse battery", NOW + 7 * DAY - 1)
    assert await accounts.has_password(database, ada.email, "correct horse battery")
    assert await accounts.invited(database, token, NOW) is None


async def test_a_server_that_is_away_loses_nothing_and_blocks_nobody(
    database: Database, certificates: LocalCertificates
) -> None:
    await accounts.create_account(database, "ada@example.com", NOW)
    async with mail_server(certificates) as server:
        way = server.way()
    # It is closed now.
    mail = mail_by(database, way)
    await mail.add(MailKind.INVITATION, "ada@example.com", NOW)
    with capture_logs() as lines:
        assert await send_next(mail.database, mail.send, lambda: NOW)
    assert await waiting(database) == 1
    assert not await send_next(mail.database, mail.send, lambda: NOW + FIRST_PAUSE - 1), "it waits before the next try"
    async with mail_server(certificates) as server:
        mail = mail_by(database, server.way())
        assert await send_next(mail.database, mail.send, lambda: NOW + FIRST_PAUSE)
        assert len(server.mails) == 1
    assert await waiting(database) == 0
    assert "ada@example.com" not in str(lines)
    assert [line["event"] for line in lines] == ["mail not sent"]


@pytest.mark.parametrize("farewell", ["421 too many connections", "500 what?", "x" * 10_000])
async def test_a_mail_that_was_accepted_is_not_sent_again_whatever_is_answered_to_quit(
    database: Database, certificates: LocalCertificates, farewell: str
) -> None:
    await accounts.create_account(database, "ada@example.com", NOW)
    async with mail_server(certificates) as server:
        server.farewell = farewell
        mail = mail_by(database, server.way())
        await mail.add(MailKind.INVITATION, "ada@example.com", NOW)
        assert await send_next(mail.database, mail.send, lambda: NOW)
        assert (len(server.mails), await waiting(database)) == (1, 0)


async def test_a_refused_mail_is_tried_again_and_given_up_in_the_end(
    database: Database, certificates: LocalCertificates
) -> None:
    await accounts.create_account(database, "ada@example.com", NOW)
    async with mail_server(certificates) as server:
        server.refuses = "451 ada@example.com: later"
        mail = mail_by(database, server.way())
        await mail.ask_for_reset("ada@example.com", HERE, NOW)
        with capture_logs() as lines:
            assert await send_next(mail.database, mail.send, lambda: NOW)
            assert await waiting(database) == 1
            assert await send_next(mail.database, mail.send, lambda: NOW + HOUR)
        assert await waiting(database) == 0
        assert server.mails == []
    assert [line["event"] for line in lines] == ["mail not sent", "mail given up"]
    # Not even the server's own words.
    assert "ada@example.com" not in str(lines)


async def test_a_wrong_password_or_certificate_is_found_out_before_anything_is_said(
    database: Database, certificates: LocalCertificates, tmp_path: Path
) -> None:
    made = written(letter(MailKind.RESET, URL), SENDER, "ada@example.com", "<1@x>", NOW)
    other = ensure_certificates(tmp_path / "other", [ipaddress.ip_address("127.0.0.1")], real_now())
    async with mail_server(certificates) as server:
        for way, why in (
            (server.way(password="wrong"), "user or the password"),
            (server.way(extra_ca=other.authority), "certificate is not trusted"),
            (SmtpServer("127.0.0.1", server.port, "none"), "answers 530"),
        ):
            with pytest.raises(NotSentError, match=why) as refused:
                await asyncio.to_thread(way.send, made, "x")
            assert "wrong" not in str(refused.value)
            assert PASSWORD not in repr(way)
        assert server.mails == []


async def test_a_link_goes_before_messages_to_members_that_have_waited_longer(database: Database) -> None:
    project = await create_project(database, "Mine", NOW)
    ada, _ = await add_member(database, project.id, "ada@example.com", Role.VIEWER, NOW)
    await alerts.save(database, ada.id, project.id, ["webhook"], "never", None, None)
    for _ in range(2):
        await add_message(database, "alert", NOW, HOUR, member=(ada.id, project.id))
    await mail_by(database, MailFolder(Path())).ask_for_reset(ada.email, HERE, NOW + 1)
    sent = []

    async def send(one: OutgoingMail, _: int) -> None:
        sent.append(one.kind)

    while await send_next(database, send, lambda: NOW + 1):
        pass
    assert sent == ["reset", "alert", "alert"]


async def test_two_processes_send_a_mail_once(database: Database, certificates: LocalCertificates) -> None:
    await accounts.create_account(database, "ada@example.com", NOW)
    async with mail_server(certificates) as server:
        mail = mail_by(database, server.way())
        await mail.add(MailKind.INVITATION, "ada@example.com", NOW)
        assert sum(await asyncio.gather(*(send_next(mail.database, mail.send, lambda: NOW) for _ in range(4)))) == 1
        assert len(server.mails) == 1


async def test_asking_for_a_reset_does_the_same_for_every_address(database: Database, tmp_path: Path) -> None:
    await accounts.create_account(database, "ada@example.com", NOW, password="correct horse battery")
    signs_in_elsewhere = await accounts.create_account(database, "sso@example.com", NOW)
    await database.pool.execute("update accounts set openid = 'x y' where id = $1", signs_in_elsewhere.id)
    mail = mail_by(database, MailFolder(tmp_path / "mail"))
    for email in ("ada@example.com", "nobody@example.com", "sso@example.com"):
        await mail.ask_for_reset(email, HERE, NOW)
    assert await waiting(database) == 3
    # No token is stored before the mail is sent.
    assert await database.pool.fetchval("select count(*) from account_tokens") == 0
    while await send_next(mail.database, mail.send, lambda: NOW):
        pass
    [file] = (tmp_path / "mail").iterdir()
    assert file.suffix == ".eml"
    assert file.stat().st_mode & 0o077 == 0
    assert b"To: ada@example.com" in file.read_bytes()


async def test_whoever_asks_in_somebodys_name_ends_no_link_and_sends_few_mails(
    database: Database, tmp_path: Path
) -> None:
    ada = await accounts.create_account(database, "ada@example.com", NOW)
    mine = await accounts.invite(database, ada.id, NOW)
    mail = mail_by(database, MailFolder(tmp_path / "mail"))
    for number in range(20):
        await mail.ask_for_reset("ADA@example.com", f"198.51.100.{number}", NOW)
    while await send_next(mail.database, mail.send, lambda: NOW):
        pass
    assert len(list((tmp_path / "mail").iterdir())) == TO_ONE.free
    assert await accounts.invited(database, mine, NOW) is not None
    # One client, many addresses.
    for number in range(ADDRESS.free):
        await mail.ask_for_reset(f"nobody{number}@example.com", HERE, NOW)
    with pytest.raises(TooManyGuesses):
        await mail.ask_for_reset("somebody@example.com", HERE, NOW)


@pytest.mark.parametrize(
    "email",
    [
        "ada@example.com\r\nBcc: eve@example.com",
        "ada@example.com, eve@example.com",
        "=?utf-8?q?=0d=0a?=@example.com",
        "x",
    ],
)
async def test_an_address_that_is_more_than_one_is_refused(database: Database, tmp_path: Path, email: str) -> None:
    mail = mail_by(database, MailFolder(tmp_path))
    with pytest.raises(Invalid):
        await mail.ask_for_reset(email, HERE, NOW)
    assert await waiting(database) == 0
    with pytest.raises(ValueError, match=r"[Hh]eader"):
        written(letter(MailKind.RESET, URL), SENDER, "ada@example.com\r\nBcc: eve@example.com", "<1@x>", NOW)


async def test_an_address_beyond_ascii_is_sent_or_given_up(database: Database, certificates: LocalCertificates) -> None:
    await accounts.create_account(database, "ädä@exämple.com", NOW)
    async with mail_server(certificates) as server:
        mail = mail_by(database, server.way())
        await mail.add(MailKind.INVITATION, "ädä@exämple.com", NOW)
        assert await send_next(mail.database, mail.send, lambda: NOW)
        assert (len(server.mails), await waiting(database)) == (1, 0)


async def test_the_role_sends_until_it_is_stopped(database: Database, tmp_path: Path) -> None:
    await accounts.create_account(database, "ada@example.com", NOW)
    mail, stop = mail_by(database, MailFolder(tmp_path / "mail")), asyncio.Event()
    await mail.add(MailKind.INVITATION, "ada@example.com", NOW)

    async def is_sent() -> bool:
        return await waiting(database) == 0

    async with looking_out(database, lambda: NOW) as lookout:
        running = asyncio.create_task(run_mail(lookout, database, mail.send, lambda: NOW, stop))
        await until(is_sent)
    await running


words = st.text(st.sampled_from("=?utf-8qbQB_ \r\n:\x85\u2028é\ud800") | st.characters(), max_size=300)
encoded = st.builds(lambda text: str(Charset("utf-8").header_encode(text)), st.text(st.characters(codec="utf-8")))


@given(st.lists(words | encoded | st.just("\r\nBcc: eve@example.com\r\n\r\n")).map("".join))
def test_a_subject_is_one_header_and_says_what_it_was_given(subject: str) -> None:
    made = new_message(SENDER, "ada@example.com", subject, "<1@x>", NOW)
    made.set_content("text")
    parsed = message_from_bytes(made.as_bytes())
    assert parsed.keys() == made.keys()
    assert parsed.get_payload(decode=True) == b"text\r\n"
    line = " ".join("".join(c if c.isprintable() else " " for c in subject).split())
    assert str(make_header(decode_header(re.sub(r"\r?\n", "", parsed["Subject"])))) == line


@pytest.mark.parametrize("word", ["=?utf-8?q?x=0d=0aBcc=3aeve?=", "=?utf-8?q?x=0d=0a=0d=0abody?="])
async def test_a_mail_with_a_header_that_would_begin_another_is_not_sent(
    certificates: LocalCertificates, tmp_path: Path, word: str
) -> None:
    made = written(letter(MailKind.RESET, URL), SENDER, "ada@example.com", "<1@x>", NOW)
    made["X-Name"] = word
    async with mail_server(certificates) as server:
        for way in (server.way(), MailFolder(tmp_path / "mail")):
            with pytest.raises(NotSentError, match="line break") as refused:
                await asyncio.to_thread(way.send, made, "x")
            assert refused.value.for_good
        assert server.mails == []
    assert not (tmp_path / "mail").exists()
