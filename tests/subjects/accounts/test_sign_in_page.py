"""Signing in: who gets in, who does not, and the limits on guessing."""

from typing import Any
from urllib.parse import urlencode

import pytest
from structlog.testing import capture_logs

from latchkey.dashboard.cookie import DEVICE, SESSION, safe_next
from latchkey.http.exchange import Exchange
from latchkey.subjects.accounts.page.account_page import in_words
from latchkey.subjects.accounts.rules import IDLE_FOR, INVITATION_LASTS, LIVES_FOR, PAIR, Role
from latchkey.subjects.accounts.usecases import accounts, sessions
from latchkey.subjects.api_keys.usecases import hash_of
from latchkey.subjects.charts.usecases import FactCache
from tests.dashboard.asking import Person, cookie_of, known, set_cookies, signed_in, somebody
from tests.dashboard.site import PASSWORD, Site
from tests.dashboard.tab import Tab, tab
from tests.http.client import Reply

SIGN_IN = "/dashboard/sign-in"
ACCOUNT = "/dashboard/account"
WRONG = b"There is no account with this e-mail address and password."


async def enter(
    site: Site, email: str, password: str = PASSWORD, *, next: str = "", address: str = "192.0.2.1", device: str = ""
) -> Reply:
    body = urlencode({"email": email, "password": password, "next": next}).encode()
    headers = {"cookie": f"{DEVICE}={device}"} if device else {}
    return await Person(site).ask("POST", SIGN_IN, body=body, address=address, headers=headers)


async def audited(site: Site, action: str) -> list[tuple[str, str, str, str]]:
    """Actor, subject, outcome and detail of the entries, oldest first."""
    rows = await site.database.pool.fetch(
        "select actor, subject, outcome, detail::text from audit_entries where action = $1 order by position",
        action,
    )
    return [(actor, subject, outcome, detail) for actor, subject, outcome, detail in rows]


async def invitation(site: Site, email: str) -> str:
    account = await site.account(email)
    return f"/dashboard/invitations/{await accounts.invite(site.database, account.id, site.clock.now)}"


async def test_somebody_signs_in_looks_around_and_signs_out(site: Site) -> None:
    email = await site.person(Role.DEVELOPER, password=PASSWORD)
    page = await tab(site, None, "/settings")
    assert page.heading == "Sign in"
    await page.press("Sign in", {"E-mail": email.upper(), "Password": PASSWORD})
    assert page.below == "/settings"
    old = Person(site, page.cookies[SESSION])
    await page.press("Sign out")
    assert page.heading == "Sign in"
    await page.open("/settings")
    assert page.heading == "Sign in"
    # A copy of the old cookie does not work any more.
    assert (await old.get(ACCOUNT)).status == 303


async def test_while_somebody_signs_in_the_charts_of_the_first_page_are_opened(site: Site) -> None:
    front: Any = site.client.app
    charts: FactCache = front.services.charts
    assert (await Person(site).get(SIGN_IN)).status == 200
    assert charts._warming is not None
    await charts._warming
    assert site.project_id in charts._opened


async def test_a_wrong_password_and_an_unknown_address_look_the_same(site: Site) -> None:
    email = await site.person(Role.VIEWER, password=PASSWORD)
    for who, password in ((email, "wrong wrong wrong"), ("nobody@example.com", PASSWORD), (PASSWORD, ""), ("", "")):
        reply = await enter(site, who, password)
        assert reply.status == 401
        assert WRONG in reply.body
        assert "set-cookie" not in reply.headers
        assert (PASSWORD if password == PASSWORD else "wrong wrong").encode() not in reply.body
    (_, *first), (_, *second), (_, *third), _ = (await audited(site, "account.signed_in"))[-4:]
    assert first[:2] == [email, "refused"]
    assert second[:2] == ["nobody@example.com", "refused"]
    # Text in the field for the address that is no address may be a password: it is not stored.
    assert third[:2] == ["not an e-mail address", "refused"]


async def test_after_ten_wrong_guesses_the_next_has_to_wait_a_few_seconds(site: Site) -> None:
    email = await site.person(Role.VIEWER, password=PASSWORD)
    for _ in range(PAIR.free):
        assert (await enter(site, email, "wrong wrong wrong", address="192.0.2.7")).status == 401
    reply = await enter(site, email, address="192.0.2.7")
    assert reply.status == 429
    assert reply.headers["retry-after"] == str(PAIR.first // 1000)
    assert b"Too many wrong passwords. Try again in 4 seconds." in reply.body
    site.clock.now += PAIR.first
    assert (await enter(site, email, address="192.0.2.7")).status == 303


async def test_whoever_signs_in_gets_a_new_session_and_the_old_one_is_over(site: Site) -> None:
    email = await site.person(Role.VIEWER, password=PASSWORD)
    before = await signed_in(site, email)
    reply = await before.post(SIGN_IN, {"email": email, "password": PASSWORD})
    assert reply.status == 303
    assert cookie_of(reply) != before.token
    [attributes] = [line.lower() for line in set_cookies(reply) if line.startswith(f"{SESSION}=")]
    assert all(word in attributes for word in ("httponly", "secure", "samesite=lax", "path=/"))
    assert "domain" not in attributes
    assert (await before.get(ACCOUNT)).status == 303
    after = await known(site, cookie_of(reply))
    assert (await after.get(ACCOUNT)).status == 200
    # Somebody who is signed in is redirected at once.
    assert (await after.get(f"{SIGN_IN}?next=/dashboard/account")).headers["location"] == ACCOUNT


async def test_a_session_nobody_uses_is_over_and_every_session_after_two_weeks(site: Site) -> None:
    email = await site.person(Role.VIEWER)
    idle, used = await signed_in(site, email), await signed_in(site, email)
    began = site.clock.now
    site.clock.now += IDLE_FOR - 1
    assert (await used.get(ACCOUNT)).status == 200
    site.clock.now += 1
    assert (await idle.get(ACCOUNT)).status == 303
    assert (await used.get(ACCOUNT)).status == 200
    while site.clock.now < began + LIVES_FOR - IDLE_FOR:
        site.clock.now += IDLE_FOR // 2
        assert (await used.get(ACCOUNT)).status == 200
    site.clock.now = began + LIVES_FOR
    assert (await used.get(ACCOUNT)).status == 303


async def test_changing_the_password_ends_every_other_session(site: Site) -> None:
    me = await somebody(site, Role.VIEWER, password=PASSWORD)
    other = await signed_in(site, me.email)
    link = await invitation(site, me.email)
    change = f"{ACCOUNT}/password"
    for old, new, words in (
        ("wrong wrong wrong", "a new password", b"The present password is not right."),
        (PASSWORD, "short", b"at least 10 characters"),
    ):
        reply = await me.post(change, {"old_password": old, "new_password": new})
        assert reply.status == 400
        assert words in reply.body
    assert (await other.get(ACCOUNT)).status == 200
    assert (await me.post(change, {"old_password": PASSWORD, "new_password": "a new password"})).status == 303
    assert (await other.get(ACCOUNT)).status == 303
    assert b"Your password is changed" in (await me.get(ACCOUNT)).body
    # It is said once.
    assert b"Your password is changed" not in (await me.get(ACCOUNT)).body
    assert (await enter(site, me.email)).status == 401
    assert (await enter(site, me.email, "a new password")).status == 303
    assert (await Person(site).get(link)).status == 404
    # Guessing the password in an open session is limited too.
    statuses = [
        (await me.post(change, {"old_password": "wrong wrong wrong", "new_password": PASSWORD})).status
        for _ in range(PAIR.free + 1)
    ]
    assert statuses == [400] * PAIR.free + [429]


async def test_one_session_and_all_others_are_ended_on_the_account_page(site: Site) -> None:
    me, stranger = await somebody(site, Role.SUPPORT), await somebody(site, Role.SUPPORT)
    others = [await signed_in(site, me.email) for _ in range(3)]
    page = await Tab(me).open(ACCOUNT)
    assert page.texts("tbody button").count("End") == 3
    await page.press("End")
    assert page.notice == "That session is over."
    assert sorted([(await other.get(ACCOUNT)).status for other in others]) == [200, 200, 303]
    await page.press("End all others")
    assert page.notice == "You are signed out everywhere else."
    assert [(await other.get(ACCOUNT)).status for other in others] == [303] * 3
    # Nobody ends the session of somebody else.
    assert stranger.token is not None
    assert (await me.post(f"{ACCOUNT}/sessions/{hash_of(stranger.token).hex()}/end")).status == 303
    assert (await stranger.get(ACCOUNT)).status == 200


async def test_the_account_page_names_the_browser_of_a_session_and_its_system(site: Site) -> None:
    agent = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:144.0) Gecko/20100101 Firefox/144.0"
    me = await somebody(site, Role.SUPPORT)
    account = await site.account(me.email)
    await sessions.open_session(site.database, account.id, "127.0.0.1", agent, site.clock.now)
    page = await Tab(me).open(ACCOUNT)
    assert page.text(f'[title="{agent}"]') == "Firefox on Windows"
    assert "Mozilla" not in page.text()


async def test_a_link_to_choose_a_password_works_once_and_for_a_week(site: Site) -> None:
    email = await site.person(Role.SUPPORT)
    link = await invitation(site, email)
    page = await tab(site, None, link)
    assert email in page.text("body")
    await page.press("Save and sign in", {"Password": PASSWORD})
    assert page.below == ""
    used = await Person(site).get(link)
    assert used.status == 404
    assert b"used already, or is too old" in used.body
    assert (await enter(site, email)).status == 303
    old = await invitation(site, email)
    site.clock.now += INVITATION_LASTS
    assert (await Person(site).post(old, {"password": "something else"})).status == 404
    assert (await enter(site, email)).status == 303


async def test_a_link_works_also_for_who_is_signed_in(site: Site) -> None:
    me = await somebody(site, Role.VIEWER)
    link = await invitation(site, me.email)
    shown = (await me.get(link)).body.decode()
    assert f'name="csrf" value="{me.csrf}"' in shown
    short = await me.post(link, {"password": "short"})
    assert short.status == 400
    assert b"at least 10 characters" in short.body
    assert (await me.post(link, {"password": PASSWORD})).status == 303
    assert (await me.get(ACCOUNT)).status == 303


async def test_no_password_and_no_token_is_in_the_log_or_in_the_audit_log(site: Site) -> None:
    secret = "a very particular secret"
    with capture_logs() as said:
        email = await site.person(Role.VIEWER)
        link = await invitation(site, email)
        token = link.rpartition("/")[2]
        await Person(site).get(link)
        await Person(site).post(link, {"password": "short"})
        reply = await Person(site).post(link, {"password": secret})
        me = await known(site, cookie_of(reply))
        await enter(site, secret, secret)
        await enter(site, email, secret + "!")
        await me.post(f"{ACCOUNT}/password", {"old_password": secret, "new_password": secret + "!"})
        await me.post("/dashboard/sign-out")
        await Person(site).post(f"/dashboard/invitations/{token}", {"password": secret})
    audits = str([row[0] for row in await site.database.pool.fetch("select e::text from audit_entries e")])
    assert [line["route"] for line in said if line["event"] == "request"].count("/dashboard/invitations/{token}") == 4
    for text in (str(said), audits):
        for word in (secret, token, me.token, me.csrf):
            assert word is not None
            assert word not in text
    assert "account.signed_out" in audits


async def test_an_open_redirect_is_no_way_out_of_the_sign_in(site: Site) -> None:
    assert safe_next("/dashboard/projects/p?x=1") == "/dashboard/projects/p?x=1"
    email = await site.person(Role.VIEWER, password=PASSWORD)
    for bad in (
        "",
        "//evil.example",
        "https://evil.example",
        "/dashboard//evil",
        "/dashboard\\evil",
        "/dashboardx",
        "/dashboard/\r\nx: y",
        "/v2",
    ):
        assert safe_next(bad) == "/dashboard"
        assert (await enter(site, email, next=bad)).headers["location"] == "/dashboard"
    assert (await enter(site, email, next=ACCOUNT)).headers["location"] == ACCOUNT


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("6.6.6.6, 203.0.113.9", "203.0.113.9"),
        ("6.6.6.6, 203.0.113.9:5555", "203.0.113.9"),
        ("[2001:db8::9]:443", "2001:db8::9"),
        ("2001:db8::9", "2001:db8::9"),
        ("junk", "unknown"),
        ("junk:1", "unknown"),
    ],
)
async def test_behind_a_proxy_the_address_is_what_the_nearest_one_says(told: str, seen: str) -> None:
    async def send(_: Any) -> None: ...

    def exchange(headers: list[tuple[bytes, bytes]]) -> Exchange:
        return Exchange({"method": "GET", "path": "/", "client": ("10.0.0.1", 1), "headers": headers}, send)

    headers = [(b"x-forwarded-for", told.encode())]
    assert exchange(headers).address(behind_proxy=True) == seen
    assert exchange(headers).address(behind_proxy=False) == "10.0.0.1"
    # Some proxies add a header of their own after one that the client sent.
    headers = [(b"x-forwarded-for", b"198.51.100.1"), *headers]
    assert exchange(headers).address(behind_proxy=True) == seen


_WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"
_IOS = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (f"Mozilla/5.0 (X11; Linux x86_64) {_WEBKIT} Chrome/141.0.0.0 Safari/537.36", "Chrome on Linux"),
        (
            f"Mozilla/5.0 (X11; Linux x86_64) {_WEBKIT} HeadlessChrome/141.0.0.0 Safari/537.36",
            "Chrome without a window on Linux",
        ),
        (
            f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {_WEBKIT} Chrome/141.0.0.0 Safari/537.36 Edg/141.0.0.0",
            "Edge on Windows",
        ),
        (
            f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {_WEBKIT} Chrome/141.0.0.0 Safari/537.36 OPR/122.0.0.0",
            "Opera on Windows",
        ),
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:144.0) Gecko/20100101 Firefox/144.0", "Firefox on Windows"),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)"
            " Version/18.5 Safari/605.1.15",
            "Safari on a Mac",
        ),
        (f"{_IOS} Version/18.5 Mobile/15E148 Safari/604.1", "Safari on an iPhone"),
        (f"{_IOS} CriOS/141.0.0.0 Mobile/15E148 Safari/604.1", "Chrome on an iPhone"),
        (f"{_IOS} FxiOS/144.0 Mobile/15E148 Safari/604.1", "Firefox on an iPhone"),
        (f"Mozilla/5.0 (Linux; Android 10; K) {_WEBKIT} Chrome/141.0.0.0 Mobile Safari/537.36", "Chrome on Android"),
        (
            f"Mozilla/5.0 (Linux; Android 14; SM-S928B) {_WEBKIT} SamsungBrowser/28.0 Chrome/130.0.0.0 Safari/537.36",
            "Samsung Internet on Android",
        ),
        (f"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) {_WEBKIT} Chrome/141.0.0.0 Safari/537.36", "Chrome on ChromeOS"),
        ("Mozilla/5.0 (Windows NT 10.0)", "An unknown browser on Windows"),
        ("curl/8.14.1", "curl"),
        ("a test", "An unknown browser"),
        ("", "An unknown browser"),
    ],
)
def test_a_browser_and_its_system_are_named(agent: str, words: str) -> None:
    assert in_words(agent) == words
