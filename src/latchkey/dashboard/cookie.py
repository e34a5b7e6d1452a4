"""Cookies: of a session, of a known device, of a sign-in under way. And where to redirect after signing in."""

import hmac
from typing import Literal

from starlette.responses import Response

from latchkey.dashboard.page import ROOT, Visit
from latchkey.database.sealing import Sealer, UnsealableError
from latchkey.domain.instants import Ms
from latchkey.settings import Settings
from latchkey.subjects.accounts.rules import HALF_LASTS, LASTS, LIVES_FOR, NotBelieved
from latchkey.subjects.accounts.usecases.accounts import KNOWN_FOR, Devices
from latchkey.subjects.accounts.usecases.openid import Provider, SignInAttempt

# Bound to this host, sent only over HTTPS, not readable by scripts.
SESSION = "__Host-latchkey"
# It outlives the session: a browser that signed in before is not slowed down by wrong passwords of others.
DEVICE = "__Host-latchkey-device"
# Of somebody whose password was right and whose code is still to come. It opens nothing.
HALF = "__Host-latchkey-half"
# Of somebody who is at the OpenID provider.
OPENID = "__Host-latchkey-openid"
# For how long, and for whom. Lax, not strict, where a link from a chat to a customer's page must keep the user signed
# in, and where the provider sends the browser back; only our own sign-in page needs the others.
_KEPT: dict[str, tuple[Ms, Literal["lax", "strict"]]] = {
    SESSION: (LIVES_FOR, "lax"),
    DEVICE: (KNOWN_FOR, "strict"),
    HALF: (HALF_LASTS, "strict"),
    OPENID: (LASTS, "lax"),
}
_WHAT = "openid/attempt"
# The reference of the API, whose console needs a session.
DOCS = "/docs"
RETURN = f"{ROOT}/sign-in/openid/return"


def with_cookie(response: Response, name: str, value: str) -> Response:
    lasts, samesite = _KEPT[name]
    response.set_cookie(name, value, max_age=lasts // 1000, path="/", secure=True, httponly=True, samesite=samesite)
    return response


def without_cookie(response: Response, name: str) -> Response:
    response.delete_cookie(name, path="/", secure=True, httponly=True, samesite=_KEPT[name][1])
    return response


def device_of(visit: Visit, account_id: str) -> str | None:
    """The id of the browser, if this account signed in with it before."""
    cookie = visit.request.cookies.get(DEVICE, "")
    return Devices(visit.settings.secret_key).known(cookie, account_id, visit.now)


def with_device(response: Response, visit: Visit, account_id: str) -> Response:
    before = visit.request.cookies.get(DEVICE, "")
    return with_cookie(response, DEVICE, Devices(visit.settings.secret_key).remember(before, account_id, visit.now))


def safe_next(wanted: str) -> str:
    """Only our own pages: a link to the sign-in page must not redirect to another site."""
    inside = wanted in (ROOT, DOCS) or wanted.startswith((f"{ROOT}/", f"{ROOT}?", f"{DOCS}/", f"{DOCS}?"))
    return wanted if inside and "\\" not in wanted and "//" not in wanted and wanted.isprintable() else ROOT


def provider_of(settings: Settings) -> Provider | None:
    """The provider of these settings, if one is configured."""
    if not settings.openid_issuer:
        return None
    return Provider(
        settings.openid_issuer,
        settings.openid_client_id,
        settings.openid_client_secret,
        settings.openid_name,
        settings.openid_extra_ca,
    )


def provider(visit: Visit) -> Provider | None:
    """One for each process: it caches the provider's metadata."""
    found: Provider | None = visit.request.app.state.openid
    return found


def return_address(visit: Visit) -> str:
    """The redirect URL, which must be registered with the provider."""
    return f"https://{visit.request.headers.get('host', '')}{RETURN}"


def with_attempt(response: Response, visit: Visit, attempt: SignInAttempt) -> Response:
    return with_cookie(response, OPENID, Sealer(visit.settings.secret_key).token(attempt, _WHAT))


def attempt_of(visit: Visit, state: str) -> SignInAttempt:
    """The sign-in that this browser began; refused if it began none, another one, or one too long ago."""
    value = visit.request.cookies.get(OPENID, "")
    try:
        attempt = Sealer(visit.settings.secret_key).opened(value, SignInAttempt, _WHAT)
    except UnsealableError:
        raise NotBelieved("This sign-in was finished already, or begun in another browser. Start again.") from None
    if not hmac.compare_digest(attempt.state.encode(), state.encode()):
        raise NotBelieved("This is the answer to another sign-in. Start again.")
    if not 0 <= visit.now - attempt.began_at < LASTS:
        raise NotBelieved("That took too long. Start again.")
    return attempt
