"""Identifies the signed-in user: with the app's own function, or else with a signed JWT."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import jwt
from starlette.requests import Request

from latchkey.consumer.settings import Settings

# Finds the user's id in a request; None if nobody is signed in.
Identify = Callable[[Request], str | Awaitable[str | None] | None]

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
    return [one for one in possible if not allowed or one in allowed]


async def identified(identify: Identify, request: Request) -> str | None:
    found = identify(request)
    return await found if inspect.isawaitable(found) else found
