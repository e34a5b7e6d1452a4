"""Signing in with a password or through an OpenID provider, signing out, invitations and forgotten passwords."""

from contextlib import suppress
from functools import partial

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from latchkey.dashboard import cookie
from latchkey.dashboard.page import ROOT, Needs, Pages, Visit, address
from latchkey.domain.refusal import Refusal
from latchkey.subjects.accounts.rules import Account, NotBelieved, checked_email
from latchkey.subjects.accounts.usecases import accounts, sessions
from latchkey.subjects.accounts.usecases.openid import Provider, account_for
from latchkey.subjects.mail.usecases import Mail, MailKind

pages = Pages()


@pages.get("/sign-in", Needs.NOTHING)
async def show_sign_in(visit: Visit) -> Response:
    if visit.session is not None:
        return RedirectResponse(cookie.safe_next(visit.query.text("next")), 303)
    # The first page after signing in has charts.
    visit.services.charts.warm(visit.now)
    return await sign_in_page(visit)


async def sign_in_page(visit: Visit) -> Response:
    """Also after a refusal, with its message and status."""
    asked, next = cookie.provider(visit), _next(visit)
    return visit.page(
        "sign_in.html",
        anybody=await accounts.count_accounts(visit.database) > 0,
        next=next,
        openid=asked.name if asked else "",
        openid_way=_on_the_way("sign-in", "openid", next=next),
        mail=visit.services.mail is not None,
    )


def _next(visit: Visit) -> str:
    """Where to go then."""
    return cookie.safe_next(visit.form.text("next") or visit.query.text("next"))


def _on_the_way(*pieces: str, next: str) -> str:
    return address(ROOT, pieces, {"next": next if next != ROOT else None})


@pages.post("/sign-in", Needs.NOTHING, "account.signed_in", sign_in_page)
async def sign_in(visit: Visit) -> Response:
    email, password = visit.form.text("email"), visit.form.raw("password")
    # Input that is not an e-mail address may well be a password, so it is not logged.
    with suppress(Refusal):
        visit.actor = checked_email(email)
        visit.concerned = await accounts.find_account(visit.database, email)
    visit.audit(visit.actor or "not an e-mail address")
    device = partial(cookie.device_of, visit)
    account = await sessions.sign_in(visit.database, email, password, visit.address, visit.now, device)
    return await password_given(visit, account, _next(visit))


@pages.get("/sign-in/code", Needs.NOTHING)
async def ask_for_code(visit: Visit) -> Response:
    next = _next(visit)
    if await _half(visit) is None:
        return RedirectResponse(_on_the_way("sign-in", next=next), 303)
    return visit.page("sign_in_code.html", next=next)


async def ask_again(visit: Visit) -> Response:
    if await _half(visit) is None:
        return cookie.without_cookie(await sign_in_page(visit), cookie.HALF)
    return await ask_for_code(visit)


@pages.post("/sign-in/code", Needs.NOTHING, "account.code_given", ask_again)
async def take_code(visit: Visit) -> Response:
    account = await _half(visit)
    if account is None:
        raise NotBelieved("That took too long. Sign in again.")
    visit.concerned = account
    visit.audit(account.email)
    factors, device = visit.services.second_factors, cookie.device_of(visit, account.id)
    await factors.check(account.id, visit.form.text("code"), visit.address, device, visit.now)
    await factors.finish_half(visit.request.cookies[cookie.HALF], account.id, visit.now)
    return cookie.without_cookie(await signed_in(visit, account, _next(visit)), cookie.HALF)


@pages.post("/sign-out", Needs.ACCOUNT, "account.signed_out")
async def sign_out(visit: Visit) -> Response:
    assert visit.session is not None
    await sessions.end_session(visit.database, visit.session.token)
    return cookie.without_cookie(RedirectResponse(f"{ROOT}/sign-in", 303), cookie.SESSION)


@pages.get("/invitations/{token}", Needs.NOTHING)
async def show_invitation(visit: Visit, token: str) -> Response:
    account = await accounts.invited(visit.database, token, visit.now)
    return visit.page("choose_password.html", None if account else 404, account=account, here=visit.request.url.path)


@pages.post("/invitations/{token}", Needs.NOTHING, "account.password_chosen", show_invitation)
async def accept_invitation(visit: Visit, token: str) -> Response:
    # The link is a secret until it is used.
    visit.subject = "an invitation"
    account = await accounts.invited(visit.database, token, visit.now)
    if account is None:
        return await show_invitation(visit, token)
    visit.audit(account.email)
    visit.concerned = account
    await accounts.accept_invitation(visit.database, token, visit.form.raw("password"), visit.now)
    if account.has_password and visit.services.mail is not None:
        await visit.services.mail.add(MailKind.CHANGED, account.email, visit.now)
    # The link stands for the password only.
    return await password_given(visit, account, ROOT)


async def password_given(visit: Visit, account: Account, next: str) -> Response:
    """Signs in, or asks for the code first. Until it was right there is no session."""
    if not account.has_second_factor:
        return await signed_in(visit, account, next)
    visit.audit(second_factor="asked for")
    if visit.session is not None:
        await sessions.end_session(visit.database, visit.session.token)
    token = await visit.services.second_factors.begin_half(account.id, visit.now)
    way = _on_the_way("sign-in", "code", next=next)
    return cookie.with_cookie(cookie.without_cookie(RedirectResponse(way, 303), cookie.SESSION), cookie.HALF, token)


async def _half(visit: Visit) -> Account | None:
    """Whose code is to come."""
    token = visit.request.cookies.get(cookie.HALF, "")
    return await visit.services.second_factors.waiting(token, visit.now) if token else None


async def signed_in(visit: Visit, account: Account, next: str, *, through: str | None = None) -> Response:
    """Opens a new session; the browser's previous session ends."""
    if visit.session is not None:
        await sessions.end_session(visit.database, visit.session.token)
    browser = visit.address, visit.request.headers.get("user-agent", ""), visit.now
    token = await sessions.open_session(visit.database, account.id, *browser, through=through, by_password=not through)
    response = RedirectResponse(next, 303)
    return cookie.with_device(cookie.with_cookie(response, cookie.SESSION, token), visit, account.id)


@pages.get("/forgotten", Needs.NOTHING)
async def show(visit: Visit) -> Response:
    _mail(visit)
    return visit.page("forgotten.html", email="")


@pages.post("/forgotten", Needs.NOTHING, "account.reset_asked_for", show)
async def ask(visit: Visit) -> Response:
    mail = _mail(visit)
    # What is none may well be a password, so it is neither shown nor logged.
    visit.audit("not an e-mail address")
    visit.actor = email = checked_email(visit.form.text("email"))
    visit.audit(email)
    await mail.ask_for_reset(email, visit.address, visit.now)
    return visit.page("forgotten.html", email=email)


def _mail(visit: Visit) -> Mail:
    if visit.services.mail is None:
        raise HTTPException(404, "No mail is set up here. Ask an owner of your project for a new link.")
    return visit.services.mail


LONGEST_ADDRESS = 254


@pages.get("/sign-in/openid", Needs.NOTHING)
async def go_there(visit: Visit) -> Response:
    asked, next = _provider(visit), _next(visit)
    if visit.session is not None:
        return RedirectResponse(next, 303)
    try:
        where, attempt = await asked.begin(cookie.return_address(visit), next, visit.now)
    except Refusal as refusal:
        visit.refusal = refusal
        return await sign_in_page(visit)
    return cookie.with_attempt(RedirectResponse(where, 303), visit, attempt)


async def come_back_refused(visit: Visit) -> Response:
    return cookie.without_cookie(await sign_in_page(visit), cookie.OPENID)


@pages.get("/sign-in/openid/return", Needs.NOTHING, action="account.signed_in", again=come_back_refused)
async def come_back(visit: Visit) -> Response:
    asked, query = _provider(visit), visit.query
    visit.audit("an unknown identity", through=asked.issuer)
    attempt = cookie.attempt_of(visit, query.text("state"))
    if query.text("error"):
        if query.text("error") == "access_denied":
            raise NotBelieved(f"You were not signed in at {asked.name}.")
        raise NotBelieved(f"{asked.name} could not sign you in. Are its settings for Latchkey right?")
    if query.text("iss", asked.issuer) != asked.issuer or not query.text("code"):
        raise NotBelieved(f"This is not an answer of {asked.name}. Start again.")
    identity = await asked.finish(query.text("code"), attempt, cookie.return_address(visit), visit.now)
    visit.actor = (identity.email or "")[:LONGEST_ADDRESS]
    visit.audit(visit.actor)
    visit.concerned = account = await account_for(visit.database, identity)
    visit.actor = ""
    visit.audit(account.email)
    return cookie.without_cookie(await signed_in(visit, account, attempt.next, through=sessions.OPENID), cookie.OPENID)


def _provider(visit: Visit) -> Provider:
    found = cookie.provider(visit)
    if found is None:
        raise HTTPException(404, "Signing in through OpenID Connect is not set up here.")
    return found
