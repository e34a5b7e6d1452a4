"""Signing in and out, and choosing a password with an invitation."""

from functools import partial

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from latchkey.dashboard.cookie import (
    HALF,
    device_of,
    safe_next,
    with_cookie,
    with_device,
    with_half,
    without_cookie,
    without_half,
)
from latchkey.dashboard.openid_sign_in import provider
from latchkey.dashboard.page import ROOT, Needs, Pages, Visit, address
from latchkey.domain.refusal import Invalid, Refusal
from latchkey.subjects.accounts.rules import Account, checked_email
from latchkey.subjects.accounts.usecases import accounts, sessions
from latchkey.subjects.accounts.usecases.sessions import TooManyGuesses
from latchkey.subjects.mail.usecases import Mail

pages = Pages()


@pages.get("/sign-in", Needs.NOTHING)
async def show_sign_in(visit: Visit) -> Response:
    if visit.session is not None:
        return RedirectResponse(safe_next(visit.query.text("next")), 303)
    return await sign_in_page(visit, next=safe_next(visit.query.text("next")))


@pages.post("/sign-in", Needs.NOTHING, "account.signed_in")
async def sign_in(visit: Visit) -> Response:
    email, next = visit.form.text("email"), safe_next(visit.form.text("next"))
    visit.concerned = await _concerned(visit, email)
    # Input that is not an e-mail address may well be a password, so it is not logged.
    visit.actor = visit.concerned.email if visit.concerned else _address(email)
    visit.audit(visit.actor or "not an e-mail address")
    try:
        account = await sessions.sign_in(
            visit.database, email, visit.form.raw("password"), visit.address, visit.now, partial(device_of, visit)
        )
    except Refusal as refusal:
        visit.audit(refusal=refusal.message)
        status = 429 if isinstance(refusal, TooManyGuesses) else 401
        page = await sign_in_page(visit, status, error=refusal.message, email=email, next=next)
        if isinstance(refusal, TooManyGuesses):
            page.headers["retry-after"] = str(-(-refusal.retry_after // 1000))
        return page
    return await password_given(visit, account, next)


@pages.get("/sign-in/code", Needs.NOTHING)
async def ask_for_code(visit: Visit) -> Response:
    next = safe_next(visit.query.text("next"))
    if await _half(visit) is None:
        return RedirectResponse(address(ROOT, ("sign-in",), {"next": next if next != ROOT else None}), 303)
    return _code_page(visit, next)


@pages.post("/sign-in/code", Needs.NOTHING, "account.code_given")
async def take_code(visit: Visit) -> Response:
    next, token = safe_next(visit.form.text("next")), visit.request.cookies.get(HALF, "")
    account = await _half(visit)
    if account is None:
        return without_half(await sign_in_page(visit, 401, error="That took too long. Sign in again.", next=next))
    visit.concerned = account
    visit.audit(account.email)
    factors = visit.services.second_factors
    try:
        code, device = visit.form.text("code"), device_of(visit, account.id)
        await factors.check(account.id, code, visit.address, device, visit.now)
        await factors.finish_half(token, account.id, visit.now)
    except Refusal as refusal:
        visit.audit(refusal=refusal.message)
        page = _code_page(visit, next, 429 if isinstance(refusal, TooManyGuesses) else 401, refusal.message)
        if isinstance(refusal, TooManyGuesses):
            page.headers["retry-after"] = str(-(-refusal.retry_after // 1000))
        return page
    return without_half(await signed_in(visit, account, next))


@pages.post("/sign-out", Needs.ACCOUNT, "account.signed_out")
async def sign_out(visit: Visit) -> Response:
    assert visit.session is not None
    await sessions.end_session(visit.database, visit.session.token)
    return without_cookie(RedirectResponse(f"{ROOT}/sign-in", 303))


@pages.get("/invitations/{token}", Needs.NOTHING)
async def show_invitation(visit: Visit) -> Response:
    account = await accounts.invited(visit.database, visit.param("token"), visit.now)
    return _invitation(visit, account)


@pages.post("/invitations/{token}", Needs.NOTHING, "account.password_chosen")
async def accept_invitation(visit: Visit) -> Response:
    token = visit.param("token")
    # The link is a secret until it is used.
    visit.subject = "an invitation"
    account = await accounts.invited(visit.database, token, visit.now)
    if account is None:
        return _invitation(visit, None)
    visit.audit(account.email)
    visit.concerned = account
    try:
        await accounts.accept_invitation(visit.database, token, visit.form.raw("password"), visit.now)
    except Refusal as refusal:
        return _invitation(visit, account, refusal.message)
    if account.has_password and visit.services.mail is not None:
        await visit.services.mail.tell_of_change(account.email, visit.now)
    # The link stands for the password only.
    return await password_given(visit, account, ROOT)


def _address(text: str) -> str:
    try:
        return checked_email(text)
    except Refusal:
        return ""


async def _concerned(visit: Visit, email: str) -> Account | None:
    try:
        return await accounts.find_account(visit.database, email)
    except Refusal:
        return None


async def password_given(visit: Visit, account: Account, next: str) -> Response:
    """Signs in, or asks for the code first. Until it was right there is no session."""
    if not account.has_second_factor:
        return await signed_in(visit, account, next)
    visit.audit(second_factor="asked for")
    if visit.session is not None:
        await sessions.end_session(visit.database, visit.session.token)
    token = await visit.services.second_factors.begin_half(account.id, visit.now)
    way = address(ROOT, ("sign-in", "code"), {"next": next if next != ROOT else None})
    return with_half(without_cookie(RedirectResponse(way, 303)), token)


async def _half(visit: Visit) -> Account | None:
    """Whose code is to come."""
    token = visit.request.cookies.get(HALF, "")
    return await visit.services.second_factors.waiting(token, visit.now) if token else None


def _code_page(visit: Visit, next: str, status: int = 200, error: str = "") -> Response:
    return visit.page("sign_in_code.html", status, next=next, error=error)


async def signed_in(visit: Visit, account: Account, next: str, *, through: str | None = None) -> Response:
    """Opens a new session; the browser's previous session ends."""
    if visit.session is not None:
        await sessions.end_session(visit.database, visit.session.token)
    agent = visit.request.headers.get("user-agent", "")
    token = await sessions.open_session(visit.database, account.id, visit.address, agent, visit.now, through=through)
    response = RedirectResponse(next, 303)
    return with_device(with_cookie(response, token), visit, account.id)


async def sign_in_page(
    visit: Visit, status: int = 200, *, error: str = "", email: str = "", next: str = ROOT
) -> Response:
    anybody = await accounts.any_account(visit.database)
    asked = provider(visit)
    way = address(f"{ROOT}/sign-in/openid", (), {"next": next if next != ROOT else None}) if asked else ""
    name = asked.name if asked else ""
    values = {"email": email, "next": next, "openid": name, "openid_way": way, "anybody": anybody}
    values["mail"] = visit.services.mail is not None
    return visit.page("sign_in.html", status, error=error, **values)


def _invitation(visit: Visit, account: Account | None, error: str = "") -> Response:
    status = 400 if error else 200 if account else 404
    return visit.page("choose_password.html", status, account=account, error=error, here=visit.request.url.path)


# A forgotten password: asks for a mail with a link to choose a new one.


@pages.get("/forgotten", Needs.NOTHING)
async def show(visit: Visit) -> Response:
    _mail(visit)
    return visit.page("forgotten.html", asked=False, error="", email="")


@pages.post("/forgotten", Needs.NOTHING, "account.reset_asked_for")
async def ask(visit: Visit) -> Response:
    mail, typed = _mail(visit), visit.form.text("email")
    try:
        email = checked_email(typed)
    except Invalid as refusal:
        # It may well be a password, so it is neither shown nor logged.
        visit.audit("not an e-mail address", refusal=refusal.message)
        return visit.page("forgotten.html", 400, asked=False, error=refusal.message, email="")
    visit.actor = email
    visit.audit(email)
    await mail.ask_for_reset(email, visit.address, visit.now)
    return visit.page("forgotten.html", asked=True, error="", email=email)


def _mail(visit: Visit) -> Mail:
    if visit.services.mail is None:
        raise HTTPException(404, "No mail is set up here. Ask an owner of your project for a new link.")
    return visit.services.mail
