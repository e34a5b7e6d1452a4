"""The Stripe emulator behind the adapter's HTTP client, without a socket, and what it sends."""

import time
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec
from stripe import WebhookSignature

from latchkey.domain.instants import Ms, add, parse_duration
from latchkey.emulators.emulator import EmulatorClock
from latchkey.emulators.notification_outbox import OutgoingNotification
from latchkey.emulators.stripe.stripe_books import StripeBooks
from latchkey.emulators.stripe.stripe_emulator import StripeAccount, StripeEmulator, StripeKeys
from latchkey.stores.adapter import ConnectedApp, Incoming
from latchkey.stores.http import StoreHttp, StoreResponse
from latchkey.stores.stripe.adapter import StripeAdapter
from tests.http.client import Client

Json = dict[str, Any]
# A duration that passes, an act with its options, or something else that is done to the store.
Step = str | tuple[str, Json] | Callable[["EmulatedStripe"], object]

HOST = "stripe.test"
KEY, SECRET, OLD_SECRET = "sk_test_aaaaaaaaaaaaaaaa", "whsec_aaaaaaaaaaaaaaaa", "whsec_bbbbbbbbbbbbbbbb"
# 2026-01-01T10:00Z.
START: Ms = 1_767_261_600_000
SUB = "sub_00000001"


def given(**more: Any) -> Json:
    return {"api_key": KEY, "webhook_secret": SECRET, "api_base_url": f"https://{HOST}", **more}


def connected(adapter: StripeAdapter, **more: Any) -> ConnectedApp:
    credentials = adapter.credential_form.parse(given(**more), frozenset({HOST}))
    return ConnectedApp(project_id="proj_1", app_id="app_1", store=adapter.store, credentials=credentials, version=1)


def error(status: int, code: str = "", type: str = "invalid_request_error") -> StoreResponse:
    body = {"error": {"type": type, "code": code, "message": f"No such thing: '{SUB}'"}}
    return StoreResponse(status, {}, msgspec.json.encode(body))


_numbers = count(1)


def event(type: str, object: Json, at: Ms) -> Json:
    return {
        "id": f"evt_{next(_numbers):08}",
        "object": "event",
        "api_version": "2020-08-27",
        "type": type,
        "created": at // 1000,
        "livemode": False,
        "data": {"object": object},
    }


def sent(body: Json | bytes, secret: str = SECRET, *, age_s: int = 0, received_at: Ms = START) -> Incoming:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    signature = WebhookSignature.generate_signature_header(raw.decode(), secret, int(time.time()) - age_s)
    return Incoming(body=raw, headers={"stripe-signature": signature}, received_at=received_at)


class EmulatedStripe(StoreHttp):
    """Every call is kept in `calls`. `refuse` may answer in Stripe's place, and `edit` change one, by its path."""

    def __init__(self, refuse: Callable[[str], StoreResponse | None] = lambda path: None) -> None:
        keys = StripeKeys(secret_key=KEY, publishable_key="pk_test_aaaaaaaaaaaa", webhook_secret=SECRET)
        clock = EmulatorClock(starts_at=START, ticks=False)
        self.emulator = StripeEmulator(keys, StripeAccount(), StripeBooks(series="tests"), clock)
        super().__init__("Stripe", clock.now)
        self.purchase = ""
        self.calls: list[str] = []
        self.refuse = refuse
        self.edit: dict[str, Callable[[Any], None]] = {}
        # At most so many objects on a page.
        self.page = 100
        self._client = Client(self.emulator.application())

    @property
    def now(self) -> Ms:
        return self.emulator.clock.now()

    @property
    def books(self) -> StripeBooks:
        return self.emulator.books

    async def request(self, method: str, url: str, **sent: Any) -> StoreResponse:
        path = url.removeprefix(f"https://{HOST}/v1/")
        name = path.partition("?")[0]
        self.calls.append(f"{method} {name}")
        if (refused := self.refuse(name)) is not None:
            return self._usable(refused)
        path = path.replace("limit=100", f"limit={self.page}")
        reply = await self._client.request(
            method, f"/v1/{path}", headers=sent.get("headers"), body=sent.get("body") or b""
        )
        answer = reply.body
        if name in self.edit:
            value = msgspec.json.decode(answer)
            self.edit[name](value)
            answer = msgspec.json.encode(value)
        return self._usable(StoreResponse(reply.status, reply.headers, answer))

    async def do(self, step: Step) -> list[OutgoingNotification]:
        """What Stripe sends of it."""
        before = len(self.emulator.outbox.messages)
        if callable(step):
            step(self)
        else:
            name, options = step if isinstance(step, tuple) else (step, {})
            if name.startswith("P"):
                await self.emulator.move(add(self.now, parse_duration(name)))
            elif name == "buy":
                sale = {"product_id": "pro_monthly", "buyer": "ada", "account_token": "ada", **options}
                self.purchase = self.emulator.sell(**sale)
            else:
                self.emulator.act(self.purchase, name, **options)
        return self.emulator.outbox.messages[before:]

    def incoming(self, notification: OutgoingNotification) -> Incoming:
        request = self.emulator.write(notification, None)
        headers = {name.lower(): value for name, value in request.headers.items()}
        return Incoming(body=request.body, headers=headers, received_at=self.now)
