"""Signing in with a password or through an OpenID provider, signing out, invitations and forgotten passwords."""

from contextlib import suppress
from functools import partial

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from latchkey.dashboard import cookie
from latchkey.dashboard.page import ROOT, Needs, Pages, Visit, address
from latchkey.domain.refusal import Invalid, Refusal
from latchkey.subjects.accounts.rules import Account, NotBelieved, NotKnown, checked_email
from latchkey.subjects.accounts.usecases import accounts, sessions
from latchkey.subjects.accounts.usecases.openid import Provider, ProviderAway, SignInAttempt, account_for
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.mail.usecases import Mail, MailKind

pages = Pages()


@pages.get("/sign-in", Needs.NOTHING)
async def show_sign_in(visit: Visit) -> Response:
    if visit.session is not None:
        return RedirectResponse(cookie.safe_next(visit.query.text("next")), 303)
    # The first page after signing in has charts.
    visit.services.charts.warm(visit.now)
    return await sign_in_page(visit, next=cookie.safe_next(visit.query.text("next")))


@pages.post("/sign-in", Needs.NOTHING, "account.signed_in")
async def sign_in(visit: Visit) -> Response:
    email, next = visit.form.text("email"), cookie.safe_next(visit.form.text("next"))
    # Input that is not an e-mail address may well be a password, so it is not logged.
    with suppress(Refusal):
        visit.actor = checked_email(email)
        visit.concerned = await accounts.find_account(visit.database, email)
    visit.audit(visit.actor or "not an e-mail address")
    try:
        account = await sessions.sign_in(
            visit.database,
            email,
            visit.form.raw("password"),
            visit.address,
            visit.now,
            partial(cookie.device_of, visit),
        )
    except Refusal as refusal:
        return _wrong(visit, refusal, await sign_in_page(visit, error=refusal.message, email=email, next=next))
    return await password_given(visit, account, next)


@pages.get("/sign-in/code", Needs.NOTHING)
async def ask_for_code(visit: Visit) -> Response:
    next = cookie.safe_next(visit.query.text("next"))
    if await _half(visit) is None:
        return RedirectResponse(address(ROOT, ("sign-in",), {"next": next if next != ROOT else None}), 303)
    return _code_page(visit, next)


@pages.post("/sign-in/code", Needs.NOTHING, "account.code_given")
async def take_code(visit: Visit) -> Response:
    next, token = cookie.safe_next(visit.form.text("next")), visit.request.cookies.get(cookie.HALF, "")
    account = await _half(visit)
    if account is None:
        page = await sign_in_page(visit, 401, error="That took too long. Sign in again.", next=next)
        return cookie.without_cookie(page, cookie.HALF)
    visit.concerned = account
    visit.audit(account.email)
    factors = visit.services.second_factors
    try:
        code, device = visit.form.text("code"), cookie.device_of(visit, account.id)
        await factors.check(account.id, code, visit.address, device, visit.now)
        await factors.finish_half(token, account.id, visit.now)
    except Refusal as refusal:
        return _wrong(visit, refusal, _code_page(visit, next, refusal.message))
    return cookie.without_cookie(await signed_in(visit, account, next), cookie.HALF)


@pages.post("/sign-out", Needs.ACCOUNT, "account.signed_out")
async def sign_out(visit: Visit) -> Response:
    assert visit.session is not None
    await sessions.end_session(visit.database, visit.session.token)
    return cookie.without_cookie(RedirectResponse(f"{ROOT}/sign-in", 303), cookie.SESSION)


@pages.get("/invitations/{token}", Needs.NOTHING)
async def show_invitation(visit: Visit, token: str) -> Response:
    return _invitation(visit, await accounts.invited(visit.database, token, visit.now))


@pages.post("/invitations/{token}", Needs.NOTHING, "account.password_chosen")
async def accept_invitation(visit: Visit, token: str) -> Response:
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
    way = address(ROOT, ("sign-in", "code"), {"next": next if next != ROOT else None})
    return cookie.with_cookie(cookie.without_cookie(RedirectResponse(way, 303), cookie.SESSION), cookie.HALF, token)


async def _half(visit: Visit) -> Account | None:
    """Whose code is to come."""
    token = visit.request.cookies.get(cookie.HALF, "")
    return await visit.services.second_factors.waiting(token, visit.now) if token else None


def _code_page(visit: Visit, next: str, error: str = "") -> Response:
    return visit.page("sign_in_code.html", next=next, error=error)


def _wrong(visit: Visit, refusal: Refusal, page: Response) -> Response:
    """The page that says so."""
    visit.audit(refusal=refusal.message)
    page.status_code = 401
    if isinstance(refusal, sessions.TooManyGuesses):
        page.status_code = 429
        page.headers["retry-after"] = str(-(-refusal.retry_after // 1000))
    return page


async def signed_in(visit: Visit, account: Account, next: str, *, through: str | None = None) -> Response:
    """Opens a new session; the browser's previous session ends."""
    if visit.session is not None:
        await sessions.end_session(visit.database, visit.session.token)
    agent = visit.request.headers.get("user-agent", "")
    token = await sessions.open_session(visit.database, account.id, visit.address, agent, visit.now, through=through)
    response = RedirectResponse(next, 303)
    return cookie.with_device(cookie.with_cookie(response, cookie.SESSION, token), visit, account.id)


async def sign_in_page(
    visit: Visit, status: int = 200, *, error: str = "", email: str = "", next: str = ROOT
) -> Response:
    anybody = await accounts.count_accounts(visit.database) > 0
    asked = cookie.provider(visit)
    way = address(f"{ROOT}/sign-in/openid", (), {"next": next if next != ROOT else None}) if asked else ""
    name = asked.name if asked else ""
    values = {"email": email, "next": next, "openid": name, "openid_way": way, "anybody": anybody}
    values["mail"] = visit.services.mail is not None
    return visit.page("sign_in.html", status, error=error, **values)


def _invitation(visit: Visit, account: Account | None, error: str = "") -> Response:
    status = 400 if error else 200 if account else 404
    return visit.page("choose_password.html", status, account=account, error=error, here=visit.request.url.path)


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


LONGEST_ADDRESS = 254
STATUSES: dict[type[Refusal], int] = {ProviderAway: 502, NotBelieved: 401, NotKnown: 403}


@pages.get("/sign-in/openid", Needs.NOTHING)
async def go_there(visit: Visit) -> Response:
    asked, next = _provider(visit), cookie.safe_next(visit.query.text("next"))
    if visit.session is not None:
        return RedirectResponse(next, 303)
    try:
        where, attempt = await asked.begin(cookie.return_address(visit), next, visit.now)
    except Refusal as refusal:
        return await _refused(visit, refusal)
    return cookie.with_attempt(RedirectResponse(where, 303), visit, attempt)


@pages.get("/sign-in/openid/return", Needs.NOTHING)
async def come_back(visit: Visit) -> Response:
    asked, query = _provider(visit), visit.query
    try:
        attempt = cookie.attempt_of(visit, query.text("state"))
        if query.text("error"):
            if query.text("error") == "access_denied":
                raise NotBelieved(f"You were not signed in at {asked.name}.")
            raise NotBelieved(f"{asked.name} could not sign you in. Are its settings for Latchkey right?")
        if query.text("iss", asked.issuer) != asked.issuer or not query.text("code"):
            raise NotBelieved(f"This is not an answer of {asked.name}. Start again.")
        return cookie.without_cookie(await _enter(visit, asked, attempt, query.text("code")), cookie.OPENID)
    except Refusal as refusal:
        return cookie.without_cookie(await _refused(visit, refusal), cookie.OPENID)


async def _enter(visit: Visit, asked: Provider, attempt: SignInAttempt, code: str) -> Response:
    """In the audit log like every other sign-in, before it is done."""
    position = await audit.begin(
        visit.database,
        project_id=None,
        account_id=None,
        actor="somebody",
        action="account.signed_in",
        now=visit.now,
        address=visit.address,
    )
    detail = {"through": asked.issuer}
    tried = None
    try:
        identity = await asked.finish(code, attempt, cookie.return_address(visit), visit.now)
        tried = identity.email[:LONGEST_ADDRESS] if identity.email else None
        account = await account_for(visit.database, identity)
    except Refusal as refusal:
        detail["refusal"] = refusal.message
        subject = tried or "an unknown identity"
        await audit.finish(visit.database, position, "refused", subject, detail, actor=tried)
        raise
    response = await signed_in(visit, account, attempt.next, through=sessions.OPENID)
    await audit.finish(
        visit.database, position, "done", account.email, detail, account_id=account.id, actor=account.email
    )
    return response


async def _refused(visit: Visit, refusal: Refusal) -> Response:
    return await sign_in_page(visit, STATUSES.get(type(refusal), 400), error=refusal.message)


def _provider(visit: Visit) -> Provider:
    found = cookie.provider(visit)
    if found is None:
        raise HTTPException(404, "Signing in through OpenID Connect is not set up here.")
    return found
