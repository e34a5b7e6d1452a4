import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
import stripe

from latchkey.emulators.emulator_server import running
from latchkey.emulators.stripe.stripe_emulator import StripeEmulator, StripeKeys
from tests.emulators.shops import stripe_account

T = TypeVar("T")


@dataclass
class Desk:
    store: StripeEmulator
    client: stripe.StripeClient
    url: str

    async def ask(self, call: Callable[[Any], T]) -> T:
        return await asyncio.to_thread(call, self.client.v1)


@asynccontextmanager
async def asking(keys: StripeKeys) -> AsyncIterator[Desk]:
    async with stripe_account(keys) as store, running(store) as served:
        addresses: Any = {"api": served.base_url}
        client = stripe.StripeClient(keys.secret_key, base_addresses=addresses, max_network_retries=0)
        yield Desk(store, client, served.base_url)


@pytest.fixture
async def desk(stripe_keys: StripeKeys) -> AsyncIterator[Desk]:
    async with asking(stripe_keys) as desk:
        yield desk
