"""A forgotten password, and invitations by mail."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from latchkey.subjects.accounts.rules import ADDRESS, Role
from latchkey.subjects.accounts.usecases import accounts, sessions
from latchkey.subjects.mail.usecases import Mail, MailFolder, MailKind, send_next
from tests.dashboard.asking import Person, somebody
from tests.dashboard.site import PASSWORD, Site
from tests.dashboard.tab import tab
from tests.http.client import Reply
from tests.subjects.accounts.test_sign_in_page import SIGN_IN, audited, enter

FORGOTTEN = "/dashboard/forgotten"
NEW = "another horse battery"


@pytest.fixture
def mail(site: Site, tmp_path: Path) -> Iterator[Mail]:
    """The site with a folder for mails."""
    services: Any = site.dashboard[0]._guard._services
    made = Mail(site.database, MailFolder(tmp_path / "mail"), "Latchkey <x@example.com>", site.url)
    services.mail = made
    yield made
    services.mail = None


async def links(site: Site, mail: Mail) -> dict[str, str]:
    """By address, the link of each mail that was sent now."""
    while await send_next(mail.database, mail.send, lambda: site.clock.now):
        pass
    assert mail.folder is not None
    return links_in(Path(mail.folder))


def links_in(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in sorted(folder.glob("*.eml")):
        text = file.read_text()
        (to,) = re.findall(r"^To: (\S+)", text, re.M)
        if "was changed" not in text:
            (found[to],) = set(re.findall(r"https://[^\s\"<]+/invitations/[\w-]{43}", text))
    return found


def told_of_change(mail: Mail, email: str) -> list[str]:
    assert mail.folder is not None
    texts = [one.read_text() for one in Path(mail.folder).glob("*-changed-*.eml")]
    return [text for text in texts if f"To: {email}" in text]


async def ask(site: Site, email: str, address: str = "192.0.2.9", **headers: str) -> Reply:
    body = urlencode({"email": email}).encode()
    return await Person(site).ask("POST", FORGOTTEN, body=body, address=address, headers=headers)


async def test_somebody_forgets_the_password_and_chooses_a_new_one(site: Site, mail: Mail) -> None:
    email = await site.person(Role.VIEWER, password=PASSWORD)
    account = await site.account(email)
    elsewhere = await sessions.open_session(site.database, account.id, "127.0.0.1", "", site.clock.now)
    page = await tab(site, None)
    await page.follow("Forgot the password?")
    await page.press("Send the link", {"E-mail": email})
    assert "a mail with a link is on its way" in page.notice
    link = urlsplit((await links(site, mail))[email]).path
    await page.open(link)
    # The link is not told to other sites, and no cache keeps the page.
    assert (page.headers["referrer-policy"], page.headers["cache-control"]) == ("same-origin", "no-store")
    await page.press("Save and sign in", {"Password": NEW})
    assert (page.status, page.below) == (200, "")
    assert await accounts.has_password(site.database, email, NEW)
    assert await sessions.find_session(site.database, elsewhere, None, site.clock.now) is None
    assert (await page.open(link)).status == 404


async def test_who_changes_the_password_gets_a_mail_but_not_who_chooses_the_first(site: Site, mail: Mail) -> None:
    made = await accounts.create_account(site.database, "grace@example.com", site.clock.now)
    await mail.add(MailKind.INVITATION, made.email, site.clock.now)
    for number, (password, told) in enumerate([(PASSWORD, 0), (NEW, 1)]):
        if number:
            await ask(site, made.email)
        link = (await links(site, mail))[made.email]
        body = urlencode({"password": password}).encode()
        reply = await Person(site).ask("POST", urlsplit(link).path, body=body)
        assert reply.status == 303
        await links(site, mail)
        changed = told_of_change(mail, made.email)
        assert len(changed) == told
    assert f"{site.url}/dashboard/forgotten" in changed[0]
    assert "/invitations/" not in changed[0]


async def test_the_page_says_the_same_for_every_address(site: Site, mail: Mail) -> None:
    email = await site.person(Role.VIEWER, password=PASSWORD)
    known, unknown = await ask(site, email), await ask(site, "nobody.here@example.com")
    assert known.status == unknown.status == 200
    assert known.body.replace(email.encode(), b"x") == unknown.body.replace(b"nobody.here@example.com", b"x")
    assert set(await links(site, mail)) == {email}
    # Far more of them say the same, and send nothing.
    for _ in range(6):
        assert (await ask(site, email)).body == known.body


async def test_who_asks_for_many_has_to_wait_and_a_wrong_address_is_not_kept(site: Site, mail: Mail) -> None:
    reply = await ask(site, "my secret password", "198.51.100.3")
    assert reply.status == 400
    assert b"my secret password" not in reply.body
    for number in range(ADDRESS.free):
        assert (await ask(site, f"somebody{number}@example.com", "198.51.100.3")).status == 200
    reply = await ask(site, "somebody@example.com", "198.51.100.3")
    assert reply.status == 429
    assert int(reply.headers["retry-after"]) > 0
    assert "my secret password" not in str(await audited(site, "account.reset_asked_for"))


async def test_a_link_is_never_made_from_what_a_request_says(site: Site, mail: Mail) -> None:
    email = await site.person(Role.VIEWER, password=PASSWORD)
    await ask(site, email, host="evil.example", x_forwarded_host="evil.example")
    assert (await links(site, mail))[email].startswith(f"{site.url}/dashboard/invitations/")


async def test_who_is_added_gets_a_mail_and_the_page_shows_no_link(site: Site, mail: Mail) -> None:
    page = await tab(site, Role.OWNER, "/team")
    await page.press("Add", {"E-mail": "new.colleague@example.com"})
    assert "A mail with a link goes as a file in" in page.notice
    assert "/invitations/" not in page.html
    link = (await links(site, mail))["new.colleague@example.com"]
    body = urlencode({"password": NEW}).encode()
    assert (await Person(site).ask("POST", urlsplit(link).path, body=body)).status == 303
    assert (await enter(site, "new.colleague@example.com", NEW)).status == 303


async def test_without_mail_everything_is_as_before(site: Site) -> None:
    assert (await Person(site).get(FORGOTTEN)).status == 404
    assert (await ask(site, "ada@example.com")).status == 404
    assert b"forgotten" not in (await Person(site).get(SIGN_IN)).body
    me = await somebody(site)
    reply = await me.post(
        f"/dashboard/projects/{site.project_id}/team/add", {"email": "b@example.com", "role": "viewer"}
    )
    assert b"/dashboard/invitations/" in reply.body
