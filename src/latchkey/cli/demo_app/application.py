"""The demo's server: its pages, and a few endpoints besides the consumer's own.

| request | response |
|---|---|
| GET `/`, `/demo/{file}` | the page and its files |
| GET `/demo/offer` | the demo users, and the price of Pro |
| POST `/demo/session` `{user}` | `{token}`: no password, because there is nothing to protect |
| GET `/demo/live` | server-sent events: the state of the signed-in user, at once and after every change |
| POST `/demo/actions` `{action}` | 200 `{}`; 409 `{error}` if not possible now; 503 if the service is unreachable |

The secret key stays on the server. The page only gets the user's token.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Literal, TypeVar

import jwt
import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from latchkey.cli.demo_app.shop import Shop
from latchkey.cli.demo_app.story import PAGES, POLICY, Arrivals, tell
from latchkey.cli.service_client import ServiceAway
from latchkey.client.client_errors import ClientError
from latchkey.consumer.api.access_guard import JwtUsers
from latchkey.consumer.api.http_endpoint import Endpoint, RequestRefused, body_of, reply
from latchkey.consumer.reference_consumer import Consumer
from latchkey.domain.refusal import Refusal
from latchkey.now import real_now

USERS = {"mia": "Mia", "noah": "Noah", "zoe": "Zoe"}
WEBHOOK_PATH = "/webhooks/billing"
SESSION_SECONDS = 30 * 24 * 3600
# The local copy also changes without a webhook, after a re-read; and proxies close a stream that is silent for long.
LOOK_AGAIN = 5.0
BODY_LIMIT = 1024

T = TypeVar("T")


class _SignIn(msgspec.Struct, forbid_unknown_fields=True):
    user: str


class _Wish(msgspec.Struct, forbid_unknown_fields=True):
    action: Literal["buy", "fail", "pay", "cancel", "keep", "day", "month", "end"]


class DemoApp:
    def __init__(self, consumer: Consumer, secret_key: str) -> None:
        settings = consumer.settings
        self._consumer = consumer
        self._identify = JwtUsers(settings)
        self._shop = Shop(settings.service_url, settings.project_id, secret_key, Path(settings.service_ca), real_now)
        self._closing = False
        application = consumer.app
        application.router.routes.extend(self._routes())
        self._arrivals = Arrivals(application, WEBHOOK_PATH, USERS.keys())
        self.application: ASGIApp = self._arrivals

    def hang_up(self) -> None:
        """Close the open streams, so that the server can stop."""
        self._closing = True
        self._arrivals.ring()

    async def close(self) -> None:
        await self._shop.close()

    def _routes(self) -> list[Route]:
        return [
            *(Route(path, Endpoint(GET=_page(path))) for path in PAGES),
            Route("/demo/offer", Endpoint(GET=self._offer)),
            Route("/demo/session", Endpoint(POST=self._sign_in)),
            Route("/demo/live", Endpoint(GET=self._live)),
            Route("/demo/actions", Endpoint(POST=self._act)),
        ]

    async def _offer(self, _: Request) -> Response:
        product = await _asked(self._shop.product())
        users = [{"id": id, "name": name} for id, name in USERS.items()]
        return reply({"users": users, "price": product.price, "currency": product.currency})

    async def _sign_in(self, request: Request) -> Response:
        user = (await _body(request, _SignIn)).user
        if user not in USERS:
            raise RequestRefused(404, "There is no such demo user")
        await _asked(self._shop.time(user))
        claims = {"sub": user, "exp": real_now() // 1000 + SESSION_SECONDS}
        token = jwt.encode(claims, self._consumer.settings.jwt_secret, algorithm="HS256")
        return reply({"token": token}, headers={"Cache-Control": "no-store"})

    async def _live(self, request: Request) -> Response:
        user = self._user(request)
        await _asked(self._shop.time(user))
        headers = {"Cache-Control": "no-store"}
        return StreamingResponse(self._lines(user), media_type="text/event-stream", headers=headers)

    async def _lines(self, user: str) -> AsyncIterator[bytes]:
        told = None
        with self._arrivals.bell() as bell:
            while not self._closing:
                bell.clear()
                copy = await self._consumer.local(user)
                story = msgspec.json.encode(tell(user, copy, self._shop.shown_time(user), self._arrivals.of(user)))
                yield b"data: %b\n\n" % story if story != told else b": still here\n\n"
                told = story
                try:
                    await asyncio.wait_for(bell.wait(), LOOK_AGAIN)
                except TimeoutError:
                    continue

    async def _act(self, request: Request) -> Response:
        user, shop = self._user(request), self._shop
        acts: dict[str, Callable[[], Awaitable[object]]] = {
            "buy": lambda: shop.act(user, "purchase"),
            "fail": lambda: shop.fail(user),
            "pay": lambda: shop.act(user, "recover_billing"),
            "cancel": lambda: shop.act(user, "cancel"),
            "keep": lambda: shop.act(user, "uncancel"),
            "day": lambda: shop.wait(user, "P1D"),
            "month": lambda: shop.wait(user, "P1M"),
            "end": lambda: shop.wait_for_end(user),
        }
        try:
            await _asked(acts[(await _body(request, _Wish)).action]())
        finally:
            # The clock may have moved, even if the rest failed.
            self._arrivals.ring()
        return reply({})

    def _user(self, request: Request) -> str:
        user = self._identify(request)
        if user is None:
            raise RequestRefused(401, "Unauthorized")
        if user not in USERS:
            raise RequestRefused(403, "Only the demo's users have a story")
        return user


async def _asked(doing: Awaitable[T]) -> T:
    try:
        return await doing
    except (ServiceAway, ClientError) as error:
        raise RequestRefused(503, "The service cannot be reached. Try again in a moment.") from error
    except Refusal as error:
        raise RequestRefused(409, str(error)) from error


def _page(path: str) -> Callable[[Request], Awaitable[Response]]:
    async def show(_: Request) -> Response:
        content, kind = PAGES[path]
        return Response(content, media_type=kind, headers=POLICY)

    return show


async def _body(request: Request, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(await body_of(request, BODY_LIMIT), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise RequestRefused(400, "Invalid body") from None
