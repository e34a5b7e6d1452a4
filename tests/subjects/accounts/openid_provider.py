"""A small OpenID provider: real HTTPS, real signatures, codes that work once; and every mistake, on request."""

import asyncio
import base64
import hashlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from socket import AF_INET, SOCK_STREAM, socket
from typing import Any
from urllib.parse import parse_qs, urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from latchkey.server import Listener
from latchkey.settings import Settings
from tests.http.client import Clock

CLIENT_ID = "latchkey here"
CLIENT_SECRET = "a secret: with %signs"

_rsa = rsa.generate_private_key(65537, 2048)


@dataclass
class Key:
    kid: str
    algorithm: str = "ES256"
    private: Any = None

    def __post_init__(self) -> None:
        if self.private is None:
            self.private = _rsa if self.algorithm == "RS256" else ec.generate_private_key(ec.SECP256R1())

    def published(self) -> dict[str, Any]:
        algorithm = jwt.get_algorithm_by_name(self.algorithm)
        public: dict[str, Any] = algorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {**public, "kid": self.kid, "use": "sig", "alg": self.algorithm}


@dataclass
class Book:
    """The provider's user, and how the provider behaves."""

    clock: Clock
    url: str = ""
    subject: str = "248289761001"
    email: str = "ann@example.com"
    verified: Any = True
    # Override the claims of a good token; None removes one.
    claims: dict[str, Any] = field(default_factory=dict)
    # Override parts of the provider's description.
    description: dict[str, Any] = field(default_factory=dict)
    signing: Key = field(default_factory=lambda: Key("first", "RS256"))
    published: list[Key] = field(default_factory=list)
    # Sent instead of a good token.
    token: str | None = None
    broken: int = 0
    # With that status.
    says: bytes = b"away"
    keys_asked: int = 0
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.published = self.published or [self.signing]

    def say(self, nonce: str) -> str:
        now = self.clock.now // 1000
        claims = {
            "iss": self.url, "aud": CLIENT_ID, "sub": self.subject, "nonce": nonce, "iat": now, "exp": now + 300,
            "email": self.email, "email_verified": self.verified, **self.claims,
        }  # fmt: skip
        kept = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(kept, self.signing.private, self.signing.algorithm, {"kid": self.signing.kid})

    async def describe(self, _: Request) -> Response:
        if self.broken:
            return Response(self.says, self.broken)
        said = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
        }
        return JSONResponse(said | self.description)

    async def keys(self, _: Request) -> Response:
        self.keys_asked += 1
        return JSONResponse({"keys": [key.published() for key in self.published]})

    async def ask(self, request: Request) -> Response:
        """The page with two buttons that people see."""
        hidden = "".join(f'<input type="hidden" name="{k}" value="{v}">' for k, v in request.query_params.items())
        return HTMLResponse(
            f'<!doctype html><html lang="en"><title>Provider</title><link rel="icon" href="data:,">'
            f'<form method="post">{hidden}<button name="answer" value="yes">Allow</button>'
            f'<button name="answer" value="no">Refuse</button></form></html>'
        )

    async def decide(self, request: Request) -> Response:
        asked = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        assert asked["client_id"] == CLIENT_ID
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        answer = {"state": asked["state"], "iss": self.url}
        if asked.get("answer") == "no":
            answer["error"] = "access_denied"
        else:
            answer["code"] = secrets.token_urlsafe(16)
            self.codes[answer["code"]] = asked
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(answer)}", 303)

    async def exchange(self, request: Request) -> Response:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        asked = self.codes.pop(form.get("code", ""), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        good = (
            asked is not None
            and self._is_client(request, form)
            and form.get("grant_type") == "authorization_code"
            and form.get("redirect_uri") == asked["redirect_uri"]
            and challenge.rstrip(b"=").decode() == asked["code_challenge"]
        )
        if not good or asked is None:
            return JSONResponse({"error": "invalid_grant"}, 400)
        token = self.token if self.token is not None else self.say(asked["nonce"])
        return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": token})

    def _is_client(self, request: Request, form: dict[str, str]) -> bool:
        if "client_secret" in form:
            return (form["client_id"], form["client_secret"]) == (CLIENT_ID, CLIENT_SECRET)
        wanted = base64.b64encode(b"latchkey%20here:a%20secret%3A%20with%20%25signs").decode()
        return request.headers.get("authorization") == f"Basic {wanted}"


@asynccontextmanager
async def providing(clock: Clock, settings: Settings) -> AsyncIterator[Book]:
    """A provider with the certificate of these settings, until the end of the block."""
    book = Book(clock)
    app = Starlette(
        routes=[
            Route("/.well-known/openid-configuration", book.describe),
            Route("/keys", book.keys),
            Route("/authorize", book.ask),
            Route("/authorize", book.decide, methods=["POST"]),
            Route("/token", book.exchange, methods=["POST"]),
        ]
    )
    with socket(AF_INET, SOCK_STREAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listener = Listener(app, listening, settings)
        serving = asyncio.create_task(listener.serve())
        book.url = f"https://127.0.0.1:{listening.getsockname()[1]}"
        try:
            yield book
        finally:
            listener.stop()
            await serving
