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
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import jwt
import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from latchkey.cli.demo_app.story import PAGES, POLICY, Arrivals, tell
from latchkey.cli.service_client import ServiceAway, ServiceClient
from latchkey.client.client import Client
from latchkey.client.client_errors import ClientError
from latchkey.consumer.api.access_guard import JwtUsers
from latchkey.consumer.api.http_endpoint import Endpoint, RequestRefused, body_of, reply
from latchkey.consumer.reference_consumer import Consumer
from latchkey.consumer.rules.timestamps import HOUR, Ms, from_iso
from latchkey.domain.refusal import Refusal
from latchkey.now import real_now
from latchkey.subjects.catalog.wire import Product
from latchkey.subjects.test_clocks.wire import TestClock
from latchkey.wire.v2 import Page

PRODUCT = "pro_monthly"
GRACE_DAYS = 3
# A store charges a little before the period ends.
COLLECTED_BEFORE: Ms = HOUR

T = TypeVar("T")


class Shop:
    """What the demo's server asks of the service for a user: buy in the test store, and move time.

    Each demo user has their own test clock. It is never behind real time: the app's own clock is the real one, so an
    end on a slow test clock would seem to be over already.
    """

    def __init__(self, service_url: str, project_id: str, secret_key: str, ca: Path, now: Callable[[], Ms]) -> None:
        self._project = f"/v2/projects/{quote(project_id, safe='')}"
        self._now = now
        self._clocks: dict[str, TestClock] = {}
        self._settling = asyncio.Lock()
        self._service = ServiceClient(service_url, secret_key, ca.read_bytes())
        self._reads = Client(service_url, secret_key, project_id=project_id, ca_cert=ca)

    async def close(self) -> None:
        await self._service.close()
        await self._reads.close()

    async def product(self) -> Product:
        return await self._ask("GET", f"/products/{PRODUCT}", None, Product)

    async def time(self, user: str) -> Ms:
        """The user's current time. Creates the user and the clock if necessary."""
        async with self._settling:
            clock = self._clocks.get(user) or await self._settle(user)
        return await self._advance(user, to_ms=self._now()) if clock.now_ms < self._now() else clock.now_ms

    def shown_time(self, user: str) -> Ms:
        """Without a request; only after the user was set up."""
        return self._clocks[user].now_ms

    async def fail(self, user: str) -> None:
        """Let the next payment fail, shortly before it is due."""
        present, ends = await self.time(user), await self._ends(user)
        if ends and present < ends[0] - COLLECTED_BEFORE:
            await self._advance(user, to_ms=ends[0] - COLLECTED_BEFORE)
        await self.act(user, "fail_billing", grace_days=GRACE_DAYS)

    async def wait(self, user: str, by: str) -> None:
        await self.time(user)
        await self._advance(user, by=by)

    async def wait_for_end(self, user: str) -> None:
        """Until the paid time ends, or after that, the grace period."""
        present, ends = await self.time(user), await self._ends(user)
        ahead = [end for end in ends if end > present]
        if not ahead:
            raise Refusal("There is no subscription running, so there is nothing to wait for.")
        await self._advance(user, to_ms=ahead[0])

    async def _ends(self, user: str) -> list[Ms]:
        subscriptions = (await self._reads.subscriber(user)).subscriber.subscriptions
        if (bought := subscriptions.get(PRODUCT)) is None:
            return []
        dates = (bought.expires_date, bought.grace_period_expires_date)
        # V1 has whole seconds, rounded down.
        return sorted({from_iso(date) + 1000 for date in dates if date is not None})

    async def act(self, user: str, action: str, **more: Any) -> None:
        await self.time(user)
        asked = {"action": action, "app_user_id": user, "product_id": PRODUCT, **more}
        await self._ask("POST", "/test_store/actions", asked, dict[str, Any])

    async def _advance(self, user: str, **how: Any) -> Ms:
        clock = await self._ask("POST", f"/test_clocks/{self._clocks[user].id}/advance", how, TestClock)
        self._clocks[user] = clock
        return clock.now_ms

    async def _settle(self, user: str) -> TestClock:
        """Find or create the user's clock, and the user on it."""
        name = f"The story of {user}"
        clocks = (await self._ask("GET", "/test_clocks?limit=100", None, Page[TestClock])).items
        found = next((test_clock for test_clock in clocks if test_clock.name == name), None)
        clock = found if found is not None else await self._ask("POST", "/test_clocks", {"name": name}, TestClock)
        try:
            await self._ask("POST", "/customers", {"id": user, "test_clock_id": clock.id}, dict[str, Any])
        except Refusal as refused:
            if isinstance(refused, ServiceAway):
                raise
            if found is None:
                await self._ask("DELETE", f"/test_clocks/{clock.id}", None, dict[str, Any])
                raise Refusal(f"{user} exists already without a test clock. Choose another user.") from None
        self._clocks[user] = clock
        return clock

    async def _ask(self, method: str, path: str, body: Any, kind: type[T]) -> T:
        return msgspec.convert(await self._service.ask(method, self._project + path, body), kind)


USERS = {"mia": "Mia", "noah": "Noah", "zoe": "Zoe"}
WEBHOOK_PATH = "/webhooks/billing"
SESSION_SECONDS = 30 * 24 * 3600
# The local copy also changes without a webhook, after a re-read; and proxies close a stream that is silent for long.
LOOK_AGAIN = 5.0
BODY_LIMIT = 1024


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
