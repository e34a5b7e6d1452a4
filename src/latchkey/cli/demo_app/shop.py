"""What the demo's server asks of the service for a user: buy in the test store, and move time.

Each demo user has their own test clock. It is never behind real time: the app's own clock is the real one, so an end on
a slow test clock would seem to be over already.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from latchkey.cli.service_client import ServiceAway, ServiceClient
from latchkey.client.client import Client
from latchkey.consumer.rules.timestamps import HOUR, Ms, from_iso
from latchkey.domain.refusal import Refusal
from latchkey.subjects.catalog.wire import Product
from latchkey.subjects.test_clocks.wire import TestClock
from latchkey.wire.v2 import Page

PRODUCT = "pro_monthly"
GRACE_DAYS = 3
# A store charges a little before the period ends.
COLLECTED_BEFORE: Ms = HOUR

T = TypeVar("T")


class Shop:
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
