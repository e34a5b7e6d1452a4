"""Phones: what they send after a purchase, each from an address of its own."""

from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from msgspec import json
from pyreqwest.client import Client
from pyreqwest.request import RequestBuilder

from bench.load import client
from latchkey.emulators.apple.apple_books import AppleBooks
from latchkey.emulators.apple.apple_emulator import AppleApp, AppleEmulator, transaction_payload
from latchkey.emulators.apple.apple_keys import make_apple_keys
from latchkey.emulators.emulator import EmulatorClock
from latchkey.now import real_now

# The receipts of one address are limited.
ADDRESSES = 64
APP = AppleApp(bundle_id="com.example.bench", app_apple_id=1_234_567_890, environment="Production")
TEST_STORE, APP_STORE = 0, 1
# Of a transaction. A purchase that is older than the one before it makes a consumer read the customer again.
_DATES = ("purchaseDate", "originalPurchaseDate", "expiresDate", "signedDate")


def app_user_id(prefix: str, number: int) -> str:
    """Who buys. Even numbers are new customers, odd ones are known."""
    return f"{prefix}-new{number}" if number % 2 == 0 else f"{prefix}-known{number // 2}"


class Receipts:
    """Half of the receipts are transactions that the App Store has signed, half are tokens of the test store."""

    def __init__(self) -> None:
        self.store = AppleEmulator(make_apple_keys(), APP, AppleBooks(), EmulatorClock())
        self._transactions = {product_id: self._sold(product_id) for product_id in ("pro_monthly", "pro_yearly")}
        self._next_id = real_now() * 1000

    def write(self, prefix: str, count: int) -> list[tuple[int, bytes]]:
        """Each with the store that it is of."""
        return [self._write(prefix, number) for number in range(count)]

    def _write(self, prefix: str, number: int) -> tuple[int, bytes]:
        product_id = "pro_monthly" if number % 2 == 0 else "pro_yearly"
        store = APP_STORE if number % 4 < 2 else TEST_STORE
        return store, self.receipt(store, app_user_id(prefix, number), product_id)

    def receipt(self, store: int, buyer: str, product_id: str) -> bytes:
        """Of a new purchase, as the buyer's phone sends it."""
        token = self._signed(product_id) if store == APP_STORE else f"test_{real_now()}_{uuid4()}"
        return json.encode({"app_user_id": buyer, "fetch_token": token, "product_id": product_id})

    def _sold(self, product_id: str) -> dict[str, Any]:
        id = self.store.sell(product_id=product_id, buyer=product_id)
        purchase = self.store.books.purchases[id]
        return transaction_payload(APP, self.store.books, purchase, purchase.latest, real_now())

    def _signed(self, product_id: str) -> str:
        """The same purchase by somebody else, and now. The emulator keeps no record of it."""
        self._next_id += 1
        sold, now = self._transactions[product_id], real_now()
        ids = {"transactionId": str(self._next_id), "originalTransactionId": str(self._next_id)}
        dates = {name: sold[name] + now - sold["signedDate"] for name in _DATES}
        return self.store.keys.chain.sign({**sold, **ids, **dates})


class Phones:
    """`keys` are the public keys of the apps in the test store and in the App Store."""

    def __init__(self, authority: Path, keys: tuple[str, str]) -> None:
        self._authority = authority
        self._keys = keys
        self._clients: list[Client] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for number in range(1, ADDRESSES + 1):
            one = client(self._authority, address=f"127.0.1.{number}")
            self._clients.append(await self._stack.enter_async_context(one))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def show(self, url: str, number: int, store: int, body: bytes) -> None:
        await self.post(url, number, store, body)

    async def post(self, url: str, number: int, store: int, body: bytes) -> bytes:
        """The reply."""
        request = self._clients[number % ADDRESSES].post(url).header("content-type", "application/json")
        return await self._send(request.body_bytes(body), store)

    async def read(self, url: str, number: int, store: int) -> bytes:
        """The reply."""
        return await self._send(self._clients[number % ADDRESSES].get(url), store)

    async def _send(self, request: RequestBuilder, store: int) -> bytes:
        if self._keys[store]:
            request = request.header("authorization", f"Bearer {self._keys[store]}")
        response = await request.build().send()
        if response.status not in (200, 201, 202):
            raise RuntimeError(f"status {response.status}: {await response.text()}")
        return bytes(await response.bytes())
