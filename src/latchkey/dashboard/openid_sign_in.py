"""The browser's side of OpenID Connect: the cookie of a sign-in under way."""

import base64
import binascii
import hmac

import msgspec
from starlette.responses import Response

from latchkey.dashboard.page import ROOT, Visit
from latchkey.database.sealing import Sealer, UnsealableError
from latchkey.settings import Settings
from latchkey.subjects.accounts.rules import LASTS, NotBelieved
from latchkey.subjects.accounts.usecases.openid import Provider, SignInAttempt

# Like the session's: this host only, only over HTTPS, no scripts. Lax, so that the browser sends it on return.
NAME = "__Host-latchkey-openid"
_WHAT = "openid/attempt"
RETURN = f"{ROOT}/sign-in/openid/return"


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
    sealed = Sealer(visit.settings.secret_key).seal(msgspec.json.encode(attempt).decode(), _WHAT)
    value = base64.urlsafe_b64encode(sealed).decode().rstrip("=")
    response.set_cookie(NAME, value, max_age=LASTS // 1000, path="/", secure=True, httponly=True, samesite="lax")
    return response


def without_attempt(response: Response) -> Response:
    response.delete_cookie(NAME, path="/", secure=True, httponly=True, samesite="lax")
    return response


def attempt_of(visit: Visit, state: str) -> SignInAttempt:
    """The sign-in that this browser began; refused if it began none, another one, or one too long ago."""
    value = visit.request.cookies.get(NAME, "")
    try:
        sealed = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
        attempt = msgspec.json.decode(Sealer(visit.settings.secret_key).unseal(sealed, _WHAT), type=SignInAttempt)
    except (UnsealableError, msgspec.DecodeError, binascii.Error, ValueError):
        raise NotBelieved("This sign-in was finished already, or begun in another browser. Start again.") from None
    if not hmac.compare_digest(attempt.state.encode(), state.encode()):
        raise NotBelieved("This is the answer to another sign-in. Start again.")
    if not 0 <= visit.now - attempt.began_at < LASTS:
        raise NotBelieved("That took too long. Start again.")
    return attempt
