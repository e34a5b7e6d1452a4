"""The access token for the Android Publisher API, in exchange for an assertion that the service account's key signs."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from google.auth import jwt

from latchkey.domain.instants import MINUTE, SECOND, Ms
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.errors import CredentialsRefused, StoreDown
from latchkey.stores.google.credentials import GoogleCredentials
from latchkey.stores.google.refusal import reason_word
from latchkey.stores.http import StoreHttp

SCOPE = "https://www.googleapis.com/auth/androidpublisher"
GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"
# Google's clock and ours differ, and a request takes a while.
RENEW_BEFORE: Ms = 2 * MINUTE
# A refused key stays refused for this long, so that a backlog of notifications does not hammer the token address.
REFUSED_FOR: Ms = 30 * SECOND
_ASSERTION_LIFETIME_S = 3600
_MOST_APPS = 1_000


class _Granted(msgspec.Struct):
    access_token: str
    expires_in: int = 3600


class _Refused(msgspec.Struct):
    error: str = ""


@dataclass(slots=True)
class _Kept:
    token: str | None = field(default=None, repr=False)
    good_until: Ms = 0
    refused: CredentialsRefused | None = None
    refused_until: Ms = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class AccessTokens:
    """One token for each app and version of its credentials. However many ask at once, Google is asked once."""

    def __init__(self, http: StoreHttp, now: Callable[[], Ms]) -> None:
        self._http = http
        self._now = now
        self._kept: OrderedDict[tuple[str, str, int], _Kept] = OrderedDict()

    async def get(self, app: ConnectedApp, *, instead_of: str | None = None) -> str:
        """`instead_of`: the token that the API has just refused. It is replaced unless somebody else has done it."""
        kept = self._of(app)
        if (token := self._usable(kept, instead_of)) is not None:
            return token
        async with kept.lock:
            if (token := self._usable(kept, instead_of)) is not None:
                return token
            if kept.refused is not None and self._now() < kept.refused_until:
                raise CredentialsRefused(kept.refused.message)
            try:
                granted = await self._grant(app.credentials)
            except CredentialsRefused as refused:
                kept.refused, kept.refused_until = refused, self._now() + REFUSED_FOR
                raise
            kept.token, kept.refused = granted.access_token, None
            kept.good_until = self._now() + granted.expires_in * SECOND - RENEW_BEFORE
            return granted.access_token

    def forget(self, app: ConnectedApp) -> None:
        self._kept.pop((app.project_id, app.app_id, app.version), None)

    def _of(self, app: ConnectedApp) -> _Kept:
        key = (app.project_id, app.app_id, app.version)
        kept = self._kept.setdefault(key, _Kept())
        self._kept.move_to_end(key)
        if len(self._kept) > _MOST_APPS:
            self._kept.popitem(last=False)
        return kept

    def _usable(self, kept: _Kept, instead_of: str | None) -> str | None:
        if kept.token is None or kept.token == instead_of or self._now() >= kept.good_until:
            return None
        return kept.token

    async def _grant(self, credentials: GoogleCredentials) -> _Granted:
        form = {"grant_type": GRANT_TYPE, "assertion": assertion(credentials, self._now())}
        answer = await self._http.request("POST", credentials.token_url, form=form)
        if answer.status == 200:
            granted = answer.json(_Granted, "Google")
            if not granted.access_token.isascii() or not granted.access_token.isprintable():
                raise StoreDown("Google answered with an access token of an unexpected form.")
            return granted
        if answer.status in (400, 401, 403):
            said = reason_word(answer.json(_Refused, "Google").error)
            raise CredentialsRefused(f"Google refuses the service account's key ({said or answer.status}).")
        raise StoreDown(f"Google answered {answer.status} instead of an access token.")


def assertion(credentials: GoogleCredentials, now: Ms) -> str:
    claims = {
        "iss": credentials.client_email,
        "scope": SCOPE,
        "aud": credentials.token_url,
        "iat": now // 1000,
        "exp": now // 1000 + _ASSERTION_LIFETIME_S,
    }
    signed: bytes = jwt.encode(credentials.signer, claims, key_id=credentials.key_id)
    return signed.decode()
