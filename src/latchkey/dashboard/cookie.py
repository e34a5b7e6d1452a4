"""The cookie of a session, and where one may be sent after signing in."""

from __future__ import annotations

from starlette.responses import Response

from latchkey.dashboard.visit import ROOT
from latchkey.domain.account import LIVES_FOR

# Bound to this host, never sent in the clear, out of reach for scripts.
NAME = "__Host-latchkey"


def with_cookie(response: Response, token: str) -> Response:
    # Lax, not strict: whoever follows a link from a chat to a customer's page is signed in there too.
    response.set_cookie(NAME, token, max_age=LIVES_FOR // 1000, path="/", secure=True, httponly=True, samesite="lax")
    return response


def without_cookie(response: Response) -> Response:
    response.delete_cookie(NAME, path="/", secure=True, httponly=True, samesite="lax")
    return response


def safe_next(wanted: str) -> str:
    """Only back to our own pages: a link to the sign-in must not become a way to somebody else's site."""
    inside = wanted == ROOT or wanted.startswith((f"{ROOT}/", f"{ROOT}?"))
    return wanted if inside and "\\" not in wanted and "//" not in wanted and wanted.isprintable() else ROOT
