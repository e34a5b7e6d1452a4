"""The second factor as people use it and against attackers: no code, no session."""

import base64
import re
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import segno
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from msgspec.structs import replace
from structlog.testing import capture_logs

from latchkey.dashboard.cookie import DEVICE, HALF, SESSION
from latchkey.dashboard.page import Needs
from latchkey.process.dashboard_application import EVERY_PAGE
from latchkey.subjects.accounts.page.account_page import BORDER, qr_code
from latchkey.subjects.accounts.rules import STEP, Role
from latchkey.subjects.accounts.usecases import sessions, team
from latchkey.subjects.projects import usecases as projects
from tests.dashboard.asking import Person, cookie_of, known, set_cookies, signed_in, somebody
from tests.dashboard.site import PASSWORD, Site
from tests.dashboard.tab import tab
from tests.http.client import Reply
from tests.subjects.accounts.test_sign_in_page import audited, enter, invitation

CODE_PAGE = "/dashboard/sign-in/code"
FACTOR = "/dashboard/account/second-factor"


def code_of(secret: str, at: int) -> str:
    return TOTP(base64.b32decode(secret.replace(" ", "")), 6, SHA1(), 30).generate(at // 1000).decode()


def wrong_code(secret: str, at: int) -> str:
    right = {code_of(secret, at + steps * STEP) for steps in range(-3, 4)}
    return next(code for code in ("000000", "111111", "222222", "333333", "444444") if code not in right)


async def protected(site: Site, role: Role = Role.OWNER) -> tuple[str, str, list[str]]:
    """Somebody with a second factor: the address, the app's secret and the recovery codes."""
    email = await site.person(role, password=PASSWORD)
    account = await site.account(email)
    factors = site.dashboard[0]._guard._services.second_factors
    made = await factors.begin(account, site.clock.now)
    then = site.clock.now
    codes = await factors.confirm(account, code_of(made.secret, then), "192.0.2.1", None, then, keep=b"")
    # The next code is another one.
    site.clock.now += 2 * STEP
    return email, made.secret, codes


async def give(
    site: Site, half: str, code: str, *, address: str = "192.0.2.1", device: str = "", next: str = ""
) -> Reply:
    cookies = f"{HALF}={half}" + (f"; {DEVICE}={device}" if device else "")
    body = urlencode({"code": code, "next": next}).encode()
    return await Person(site).ask("POST", CODE_PAGE, body=body, address=address, headers={"cookie": cookies})


async def test_somebody_sets_it_up_signs_in_with_it_and_removes_it(site: Site) -> None:
    email = await site.person(Role.VIEWER, password=PASSWORD)
    page = await tab(site, None, "/settings")
    await page.press("Sign in", {"E-mail": email, "Password": PASSWORD})
    assert page.below == "/settings"
    await page.open("/dashboard/account")
    await page.follow("Set it up")
    await page.press("Go on", {"Your password": "not the password"})
    assert "The password is not right." in page.alert
    await page.press("Go on", {"Your password": PASSWORD})
    assert page.soup.select('svg[role=img][aria-label^="QR code"]')
    secret = page.text(".snippet code")
    await page.press("Turn it on", {"Code": wrong_code(secret, site.clock.now)})
    assert "That code is not right" in page.alert
    await page.press("Turn it on", {"Code": code_of(secret, site.clock.now)})
    assert "You will not see them again" in page.notice
    recovery = page.text(".snippet code").split()
    assert len(recovery) == 10
    await page.follow("I have them")
    assert "10 of 10 recovery codes are left." in page.text()

    await page.press("Sign out")
    await page.open("/settings")
    await page.press("Sign in", {"E-mail": email, "Password": PASSWORD})
    assert page.heading == "Enter a code"
    assert SESSION not in page.cookies
    await page.press("Sign in", {"Code": recovery[0].upper()})
    assert page.below == "/settings"
    assert HALF not in page.cookies

    await page.open(FACTOR)
    assert "9 of 10 recovery codes are left." in page.text()
    await page.press("Remove", {"Code or password": PASSWORD})
    assert page.notice == "Your second factor is removed."
    assert not (await site.account(email)).has_second_factor


async def test_a_password_alone_gives_no_session_and_a_code_gives_a_new_one(site: Site) -> None:
    email, secret, _ = await protected(site)
    reply = await enter(site, email, next="/dashboard/account")
    assert (reply.status, reply.headers["location"]) == (303, f"{CODE_PAGE}?next=%2Fdashboard%2Faccount")
    half = cookie_of(reply, HALF)
    [attributes] = [line.lower() for line in set_cookies(reply) if line.startswith(HALF)]
    assert all(word in attributes for word in ("httponly", "secure", "samesite=strict"))
    assert cookie_of(reply, SESSION) == '""', "whatever session the browser had is over"
    assert not any(line.startswith(DEVICE) for line in set_cookies(reply))
    # The half of a sign-in is no session, by whatever name it is sent.
    for page in [one for one in EVERY_PAGE if one.needs is not Needs.NOTHING and one.method == "GET"]:
        path = re.sub(r"\{project_id\}", site.project_id, page.path)
        path = re.sub(r"\{[^}]*\}", "x", path)
        reply = await Person(site, half).ask("GET", path, headers={"cookie": f"{SESSION}={half}; {HALF}={half}"})
        assert reply.status == 303, page.path
        assert reply.headers["location"].startswith("/dashboard/sign-in"), page.path
    done = await give(site, half, code_of(secret, site.clock.now), next="/dashboard/account")
    assert (done.status, done.headers["location"]) == (303, "/dashboard/account")
    token = cookie_of(done, SESSION)
    assert token not in ("", half)
    assert (await (await known(site, token)).get("/dashboard/account")).status == 200
    # The half is used up.
    assert (await give(site, half, code_of(secret, site.clock.now + STEP))).status == 401


async def test_a_link_to_choose_a_password_does_not_go_around_it(site: Site) -> None:
    email, secret, _ = await protected(site)
    path = await invitation(site, email)
    body = urlencode({"password": "another horse battery"}).encode()
    reply = await Person(site).ask("POST", path, body=body)
    assert reply.headers["location"] == CODE_PAGE
    half = cookie_of(reply, HALF)
    assert (await give(site, half, code_of(secret, site.clock.now))).status == 303


async def test_a_code_leads_to_no_other_site(site: Site) -> None:
    email, secret, _ = await protected(site)
    half = cookie_of(await enter(site, email), HALF)
    reply = await give(site, half, code_of(secret, site.clock.now), next="https://evil.example/")
    assert (reply.status, reply.headers["location"]) == (303, "/dashboard")


async def test_removing_it_and_new_codes_need_a_code_or_the_password(site: Site) -> None:
    email, secret, recovery = await protected(site)
    me = await signed_in(site, email)
    for field, path in (("removal_proof", "remove"), ("proof", "codes")):
        for proof in ("", "wrong wrong wrong", wrong_code(secret, site.clock.now), "aaaa-bbbb-cccc-dddd"):
            assert (await me.post(f"{FACTOR}/{path}", {field: proof})).status == 400
    assert (await site.account(email)).has_second_factor
    reply = await me.post(f"{FACTOR}/codes", {"proof": code_of(secret, site.clock.now)})
    assert reply.status == 200
    assert recovery[1].encode() not in reply.body
    reply = await me.post(f"{FACTOR}/remove", {"removal_proof": recovery[1]})
    assert reply.status == 400, "the earlier recovery codes are gone"
    assert (await me.post(f"{FACTOR}/remove", {"removal_proof": PASSWORD})).status == 303
    assert not (await site.account(email)).has_second_factor


async def test_an_owner_sees_who_has_it_and_resets_it_unless_another_project_is_concerned(site: Site) -> None:
    email, _, _ = await protected(site, Role.DEVELOPER)
    page = await tab(site, Role.OWNER, "/team")
    assert "developer on " in page.row(email)
    await page.follow(f"Change {email}")
    await page.press("Reset second factor", sure=True)
    assert page.notice == f"{email} is not asked for a code any more."
    assert not (await site.account(email)).has_second_factor
    assert (await audited(site, "member.second_factor_reset"))[-1][1:3] == (email, "done")

    email, _, _ = await protected(site, Role.DEVELOPER)
    other = await projects.create_project(site.database, "Other", site.clock.now)
    await team.add_member(site.database, other.id, email, Role.OWNER, site.clock.now)
    me, them = await somebody(site), await site.account(email)
    reply = await me.post(f"/dashboard/projects/{site.project_id}/team/{them.id}/second-factor", {"confirm": "yes"})
    assert reply.status == 422
    assert (await site.account(email)).has_second_factor


@pytest.fixture
def required(site: Site) -> Any:
    guard: Any = site.dashboard[0]._guard
    before = guard._settings
    guard._settings = replace(before, require_second_factor=True)
    yield
    guard._settings = before


@pytest.mark.usefixtures("required")
async def test_where_it_is_required_nothing_works_before_it_is_set_up(site: Site) -> None:
    email = await site.person(Role.OWNER, password=PASSWORD)
    reply = await enter(site, email)
    me = await known(site, cookie_of(reply))
    for page in [one for one in EVERY_PAGE if one.needs is not Needs.NOTHING]:
        if page.path.startswith(FACTOR) or page.path == "/dashboard/sign-out":
            continue
        path = re.sub(r"\{[^}]*\}", "x", page.path.replace("{project_id}", site.project_id))
        if page.method == "GET":
            reply = await me.get(path)
            assert (reply.status, reply.headers.get("location")) == (303, FACTOR), page.path
        else:
            assert (await me.post(path)).status == 403, page.path
    # Who signed in through OpenID Connect is exempt: the provider asks for it.
    account = await site.account(email)
    through = await sessions.open_session(
        site.database, account.id, "127.0.0.1", "", site.clock.now, through=sessions.OPENID
    )
    assert (await (await known(site, through)).get("/dashboard/account")).status == 200

    shown = await tab(site, Role.VIEWER, "/customers")
    assert shown.path == FACTOR
    assert "A second factor is required here." in shown.text("body")
    await shown.press("Go on")
    await shown.press("Turn it on", {"Code": code_of(shown.text(".snippet code"), site.clock.now)})
    await shown.follow("I have them")
    await shown.open("/customers")
    assert shown.below == "/customers"


async def test_no_code_and_no_secret_is_in_the_log_or_in_the_audit_log(site: Site) -> None:
    with capture_logs() as lines:
        email, secret, recovery = await protected(site)
        code = code_of(secret, site.clock.now)
        half = cookie_of(await enter(site, email), HALF)
        for given in (wrong_code(secret, site.clock.now), recovery[0]):
            await give(site, half, given)
        me = await signed_in(site, email)
        await me.post(f"{FACTOR}/remove", {"removal_proof": code})
    entries = [
        entry
        for action in ("account.code_given", "account.second_factor_removed")
        for entry in await audited(site, action)
    ]
    told = str(lines) + str(entries)
    for hidden in (secret, secret.replace(" ", ""), *recovery, code, half):
        assert hidden not in told
    assert [entry[2] for entry in await audited(site, "account.code_given")][-2:] == ["refused", "done"]


def test_a_qr_code_says_what_an_app_must_know() -> None:
    """Drawn from the path that the page shows, and read back."""
    text = "otpauth://totp/Latchkey%3Aada%40example.com?secret=JBSWY3DPEHPK3PXP&issuer=Latchkey"
    assert parse_qs(urlsplit(text).query)["issuer"] == ["Latchkey"]
    drawn = qr_code(text)
    dark: set[tuple[int, int]] = set()
    for x, y, width in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\d+z", drawn.path):
        dark |= {(int(x) + one, int(y)) for one in range(int(width))}
    matrix = segno.make(text, error="m", micro=False).matrix
    assert drawn.size == len(matrix) + 2 * BORDER
    assert dark == {(x + BORDER, y + BORDER) for y, row in enumerate(matrix) for x, module in enumerate(row) if module}
