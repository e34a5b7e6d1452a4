"""`require_entitlement("pro")`: a FastAPI dependency and a Starlette decorator in one."""

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, overload
from uuid import UUID

import jwt
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from latchkey.consumer.api.http_endpoint import reply
from latchkey.consumer.billing_service import UNKNOWN, BillingService
from latchkey.consumer.consumer_settings import Settings

# Finds the user's id in a request; None if nobody is signed in.
UserId = str | int | UUID | None
Identify = Callable[[Request], UserId | Awaitable[UserId]]

_SCHEME = "bearer"


class JwtUsers:
    """`Authorization: Bearer <JWT>`, signed with HS256 (a shared secret) or RS256 / ES256 (a public key)."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._keys: list[tuple[str, list[str]]] = []
        # A key is only used with algorithms of its kind: a public key must never serve as a shared secret.
        allowed = settings.jwt_algorithms
        if settings.jwt_secret:
            self._keys.append((settings.jwt_secret, _chosen(("HS256",), allowed)))
        if settings.jwt_public_key:
            self._keys.append((settings.public_key_pem, _chosen(("RS256", "ES256"), allowed)))

    def __call__(self, request: Request) -> str | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != _SCHEME:
            return None
        for key, algorithms in self._keys:
            claims = self._claims(token.strip(), key, algorithms)
            user = claims.get(self._settings.jwt_claim) if claims is not None else None
            if isinstance(user, str) and user:
                return user
        return None

    def _claims(self, token: str, key: str, algorithms: list[str]) -> dict[str, Any] | None:
        try:
            return jwt.decode(
                token,
                key,
                algorithms=algorithms,
                audience=self._settings.jwt_audience or None,
                issuer=self._settings.jwt_issuer or None,
                options={"require": ["exp", self._settings.jwt_claim]},
            )
        except (jwt.PyJWTError, ValueError, TypeError):
            return None


def _chosen(possible: tuple[str, ...], allowed: tuple[str, ...]) -> list[str]:
    return [algorithm for algorithm in possible if not allowed or algorithm in allowed]


async def identified(identify: Identify, request: Request) -> str | None:
    """The user's id. Apps that have numbers or UUIDs for users may return those; `False` and an empty text, which
    Django has for an anonymous user, are nobody. Other objects are refused: their text may be the same for several
    users."""
    found: object = identify(request)
    found = await found if inspect.isawaitable(found) else found
    if found is None or found is False or found == "":
        return None
    if found is True or not isinstance(found, str | int | UUID):
        raise TypeError(f"`identify` returned a {type(found).__name__}; it must return a user's id, or None.")
    return str(found)


Route = Callable[[Request], Response | Awaitable[Response]]


class AccessRefused(HTTPException):
    """Not signed in (401), the user lacks the entitlement (403), or it is unknown whether the user has it (500).
    `consumer.install(app)` adds its body; without that it still has its status."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(status, body["error"])
        self.body = body


async def refused(_: Request, error: Exception) -> Response:
    """The handler that apps register for `AccessRefused`."""
    assert isinstance(error, AccessRefused)
    return reply(error.body, error.status_code)


class Guard:
    """`Depends(guard)` allows or refuses a request, and returns the user's id; `@guard` does so for a Starlette
    route."""

    def __init__(self, entitlement_id: str, billing: BillingService, identify: Identify) -> None:
        self._entitlement_id = entitlement_id
        self._billing = billing
        self._identify = identify
        # FastAPI inspects this for the parameters, and to know that it must await.
        self.__wrapped__ = self.check

    async def check(self, request: Request) -> str:
        user = await identified(self._identify, request)
        if user is None:
            raise AccessRefused(401, {"error": "Not authenticated"})
        view = await self._billing.view(user)
        holds = view.lets(self._entitlement_id)
        if holds is None:
            # Neither the service nor a local record can tell. That does not mean no access.
            raise AccessRefused(500, {"error": view.failure or UNKNOWN})
        if not holds:
            raise AccessRefused(403, {"error": "Access denied", "required_entitlement": self._entitlement_id})
        return user

    @overload
    def __call__(self, request: Request) -> Awaitable[str]: ...
    @overload
    def __call__(self, request: Route) -> Callable[[Request], Awaitable[Response]]: ...
    def __call__(self, request: Request | Route) -> Any:
        return self.check(request) if isinstance(request, Request) else self._decorated(request)

    def _decorated(self, route: Route) -> Callable[[Request], Awaitable[Response]]:
        @functools.wraps(route)
        async def guarded(request: Request) -> Response:
            try:
                await self.check(request)
            except AccessRefused as error:
                return reply(error.body, error.status_code)
            answer = route(request)
            return await answer if inspect.isawaitable(answer) else answer

        return guarded
