"""The cookies for a session and for a known device, and where to redirect after signing in."""

from starlette.responses import Response

from latchkey.dashboard.page import ROOT, Visit
from latchkey.subjects.accounts.rules import HALF_LASTS, LIVES_FOR
from latchkey.subjects.accounts.usecases.accounts import KNOWN_FOR, Devices

# Bound to this host, sent only over HTTPS, not readable by scripts.
NAME = "__Host-latchkey"
# It outlives the session: a browser that signed in before is not slowed down by wrong passwords of others.
DEVICE = "__Host-latchkey-device"
# Of somebody whose password was right and whose code is still to come. It opens nothing.
HALF = "__Host-latchkey-half"


def with_cookie(response: Response, token: str) -> Response:
    # Lax, not strict: a link from a chat to a customer's page must keep the user signed in.
    response.set_cookie(NAME, token, max_age=LIVES_FOR // 1000, path="/", secure=True, httponly=True, samesite="lax")
    return response


def without_cookie(response: Response) -> Response:
    response.delete_cookie(NAME, path="/", secure=True, httponly=True, samesite="lax")
    return response


def with_half(response: Response, token: str) -> Response:
    response.set_cookie(
        HALF, token, max_age=HALF_LASTS // 1000, path="/", secure=True, httponly=True, samesite="strict"
    )
    return response


def without_half(response: Response) -> Response:
    response.delete_cookie(HALF, path="/", secure=True, httponly=True, samesite="strict")
    return response


def device_of(visit: Visit, account_id: str) -> str | None:
    """The id of the browser, if this account signed in with it before."""
    cookie = visit.request.cookies.get(DEVICE, "")
    return Devices(visit.settings.secret_key).known(cookie, account_id, visit.now)


def with_device(response: Response, visit: Visit, account_id: str) -> Response:
    before = visit.request.cookies.get(DEVICE, "")
    value = Devices(visit.settings.secret_key).remember(before, account_id, visit.now)
    # Strict: only our own sign-in page needs it.
    response.set_cookie(
        DEVICE, value, max_age=KNOWN_FOR // 1000, path="/", secure=True, httponly=True, samesite="strict"
    )
    return response


def safe_next(wanted: str) -> str:
    """Only our own pages: a link to the sign-in page must not redirect to another site."""
    inside = wanted == ROOT or wanted.startswith((f"{ROOT}/", f"{ROOT}?"))
    return wanted if inside and "\\" not in wanted and "//" not in wanted and wanted.isprintable() else ROOT
