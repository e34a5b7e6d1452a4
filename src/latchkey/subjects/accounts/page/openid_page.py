"""Signing in with OpenID Connect: the redirect to the provider, and the return."""

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from latchkey.dashboard.cookie import safe_next
from latchkey.dashboard.openid_sign_in import attempt_of, provider, return_address, with_attempt, without_attempt
from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.domain.refusal import Refusal
from latchkey.subjects.accounts.page.sign_in import sign_in_page, signed_in
from latchkey.subjects.accounts.rules import NotBelieved, NotKnown
from latchkey.subjects.accounts.usecases.openid import Provider, ProviderAway, SignInAttempt, account_for
from latchkey.subjects.accounts.usecases.sessions import OPENID
from latchkey.subjects.audit import usecases as audit

pages = Pages()

LONGEST_ADDRESS = 254
STATUSES: dict[type[Refusal], int] = {ProviderAway: 502, NotBelieved: 401, NotKnown: 403}


@pages.get("/sign-in/openid", Needs.NOTHING)
async def go_there(visit: Visit) -> Response:
    asked, next = _provider(visit), safe_next(visit.query.text("next"))
    if visit.session is not None:
        return RedirectResponse(next, 303)
    try:
        where, attempt = await asked.begin(return_address(visit), next, visit.now)
    except Refusal as refusal:
        return await _refused(visit, refusal)
    return with_attempt(RedirectResponse(where, 303), visit, attempt)


@pages.get("/sign-in/openid/return", Needs.NOTHING)
async def come_back(visit: Visit) -> Response:
    asked, query = _provider(visit), visit.query
    try:
        attempt = attempt_of(visit, query.text("state"))
        if query.text("error"):
            if query.text("error") == "access_denied":
                raise NotBelieved(f"You were not signed in at {asked.name}.")
            raise NotBelieved(f"{asked.name} could not sign you in. Are its settings for Latchkey right?")
        if query.text("iss", asked.issuer) != asked.issuer or not query.text("code"):
            raise NotBelieved(f"This is not an answer of {asked.name}. Start again.")
        return without_attempt(await _enter(visit, asked, attempt, query.text("code")))
    except Refusal as refusal:
        return without_attempt(await _refused(visit, refusal))


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
        identity = await asked.finish(code, attempt, return_address(visit), visit.now)
        tried = identity.email[:LONGEST_ADDRESS] if identity.email else None
        account = await account_for(visit.database, identity)
    except Refusal as refusal:
        detail["refusal"] = refusal.message
        subject = tried or "an unknown identity"
        await audit.finish(visit.database, position, "refused", subject, detail, actor=tried)
        raise
    response = await signed_in(visit, account, attempt.next, through=OPENID)
    await audit.finish(
        visit.database, position, "done", account.email, detail, account_id=account.id, actor=account.email
    )
    return response


async def _refused(visit: Visit, refusal: Refusal) -> Response:
    return await sign_in_page(visit, STATUSES.get(type(refusal), 400), error=refusal.message)


def _provider(visit: Visit) -> Provider:
    found = provider(visit)
    if found is None:
        raise HTTPException(404, "Signing in through OpenID Connect is not set up here.")
    return found
