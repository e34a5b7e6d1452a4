"""Daily life: purchases of new and returning customers, short subscriptions that renew, are cancelled, refunded and
expire, test clocks, reads, charts, and pages that stay open. Whatever fails is counted, and the load goes on."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias
from uuid import uuid4

from msgspec import json
from msgspec.structs import replace
from pyreqwest.client import Client

from bench.buying import System, ask
from bench.ground import NO_LIMIT
from bench.load import client
from bench.phones import APP_STORE, TEST_STORE
from latchkey.dashboard.cookie import SESSION
from latchkey.domain.instants import MINUTE
from latchkey.emulators.apple.apple_books import AppleStatus
from latchkey.emulators.emulator_server import keep_time
from latchkey.now import real_now
from latchkey.subjects.accounts.usecases import sessions
from latchkey.subjects.accounts.usecases.accounts import find_account
from latchkey.subjects.api_keys.usecases import create_secret_key
from latchkey.subjects.charts.rules.definition import CHARTS
from latchkey.subjects.demo.usecases.project import OWNER, PROJECT_ID

Work: TypeAlias = Callable[[], Awaitable[object]]

PURCHASE, V1, V2, CHART, PAGE, RECEIVER = "purchase", "V1 read", "V2 read", "chart", "page", "commit to receiver"
# One of so many purchases is a subscription of a few minutes, which goes through a whole life while it is watched.
SHORT_ONE_IN = 20
SHORT, SHORT_PERIOD, SHORT_SECONDS = "pro_minutes", "PT5M", 300
ENDINGS = {"cancel": 7, "refund": 2, "fail_billing": 1}
CLOCK_EVERY, CHART_EVERY, TIDIED_EVERY = 20.0, 10.0, 30.0
# Pages that are looked at again and again, each after so many seconds. A chart's page has several charts.
OPEN_PAGES = {
    "/customers": 10, "/events": 10, "/webhooks": 10, "/requests": 10, "/journal": 10, "/audit": 10, "/charts/mrr": 20,
    "": 30, "/charts/revenue?days=365": 30, "/charts": 60,
}  # fmt: skip
OPEN_STREAMS = 3
# After a pause of the machine no more than this is made up for.
LATE_SECONDS = 2.0
MOST_AT_ONCE = 2_000
PATIENCE = 60.0


class Life:
    def __init__(self, system: System, rate: float) -> None:
        self._system, self._rate = system, rate
        self._dice = random.Random(1)
        self._store = system.receipts.store
        self._project = f"{system.url}/v2/projects/{PROJECT_ID}"
        # Requests without a reply; and what will end lives that go on, which waits up to 20 minutes.
        self._running: set[asyncio.Task[None]] = set()
        self._endings: set[asyncio.Task[None]] = set()
        self._customers = 0
        self._chart = 0
        # Since the start: purchases that were answered, and failures by what they were.
        self.purchases = 0
        self.errors: Counter[str] = Counter()
        # Milliseconds since the last sample, by kind.
        self.taken: dict[str, list[float]] = defaultdict(list)

    async def run(self) -> None:
        """For ever."""
        system = self._system
        key = await create_secret_key(system.database, PROJECT_ID, "soak", real_now(), rate_limit=NO_LIMIT)
        account = await find_account(system.database, OWNER)
        assert account is not None
        token = await sessions.open_session(system.database, account.id, "127.0.0.1", "soak", real_now())
        self._cookie = f"{SESSION}={token}"
        async with client(system.authority, key.plaintext) as http, client(system.authority) as browser:
            self._http, self._browser = http, browser
            await self._prepare(http)
            paces: list[tuple[str, float, Work]] = [
                (PURCHASE, self._rate, self._buy),
                (V1, self._rate / 2, self._read_v1),
                (V2, self._rate / 2, self._read_v2),
            ]
            tasks = [self._keep(kind, rate, work) for kind, rate, work in paces]
            tasks += [self._repeat(PAGE, every, self._opened(page)) for page, every in OPEN_PAGES.items()]
            tasks += [self._repeat(CHART, CHART_EVERY, self._look_at_chart)]
            tasks += [self._repeat("test clock", CLOCK_EVERY, self._move_clock)]
            tasks += [self._again("stream", self._watch) for _ in range(OPEN_STREAMS)]
            tasks += [self._again("store", lambda: keep_time(self._store)), self._again("store", self._tidy)]
            try:
                await asyncio.gather(*tasks)
            finally:
                left = self._running | self._endings
                for task in left:
                    task.cancel()
                await asyncio.gather(*left, return_exceptions=True)

    async def _prepare(self, http: Client) -> None:
        """The product of short lives, in the catalog and in the App Store."""
        short = {"id": SHORT, "kind": "subscription", "duration": SHORT_PERIOD, "price": 0.99, "currency": "USD"}
        await ask(http.post(f"{self._project}/products").body_json(short))
        granted = f"{self._project}/entitlements/pro/actions/attach_products"
        await ask(http.post(granted).body_json({"product_ids": [SHORT]}))
        self._store.add_product({"id": SHORT, "period": SHORT_PERIOD, "price": 0.99, "group": "minutes"})
        authority = await asyncio.to_thread(self._system.authority.read_bytes)
        self._store.outbox.authority = lambda: authority
        await self._store.outbox.send_to(self._system.notification_url)

    # -- When -----------------------------------------------------------------------------------------------------

    async def _keep(self, kind: str, rate: float, work: Work) -> None:
        """The work at its instants, whatever became of that before."""
        loop = asyncio.get_running_loop()
        at = loop.time() + self._dice.random() / rate
        while True:
            await asyncio.sleep(at - loop.time())
            if len(self._running) < MOST_AT_ONCE:
                self._begin(self._timed(kind, at, work), self._running)
            else:
                self.errors[f"{kind}: not sent, {MOST_AT_ONCE:,} are unanswered"] += 1
            at = max(at + 1 / rate, loop.time() - LATE_SECONDS)

    @staticmethod
    def _begin(work: Any, among: set[asyncio.Task[None]]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        among.add(task)
        task.add_done_callback(among.discard)

    async def _timed(self, kind: str, at: float, work: Work) -> None:
        if await self._tried(kind, work):
            self.taken[kind].append((asyncio.get_running_loop().time() - at) * 1000)

    async def _tried(self, kind: str, work: Work) -> bool:
        try:
            async with asyncio.timeout(PATIENCE):
                await work()
        except Exception as error:
            self._failed(kind, error)
            return False
        return True

    async def _repeat(self, kind: str, pause: float, work: Work) -> None:
        """Again after a pause, as somebody does who waits for the answer."""
        await asyncio.sleep(self._dice.random() * pause)
        while True:
            await self._timed(kind, asyncio.get_running_loop().time(), work)
            await asyncio.sleep(pause)

    async def _again(self, kind: str, work: Work) -> None:
        while True:
            try:
                await work()
            except Exception as error:
                self._failed(kind, error)
            await asyncio.sleep(1)

    def _failed(self, kind: str, error: Exception) -> None:
        """Counted by what it is, without the ids in a body."""
        words = str(error).partition("{")[0].strip(" :")
        self.errors[f"{kind}: {words or type(error).__name__}"[:100]] += 1

    # -- Purchases ------------------------------------------------------------------------------------------------

    async def _buy(self) -> None:
        store = self._dice.choice((APP_STORE, TEST_STORE))
        product_id = self._dice.choice(("pro_monthly", "pro_yearly"))
        if is_new := not self._customers or self._dice.random() < 0.5:
            number, self._customers = self._customers, self._customers + 1
        else:
            number = self._dice.randrange(self._customers)
        buyer = f"soak-{number}"
        if is_new and self._dice.random() < 2 / SHORT_ONE_IN:
            await self._begin_short_life(store, buyer, number)
        else:
            await self._show(number, store, self._system.receipts.receipt(store, buyer, product_id))

    async def _show(self, number: int, store: int, body: bytes) -> None:
        await self._system.phones.show(f"{self._system.url}/v1/receipts", number, store, body)
        self.purchases += 1

    async def _begin_short_life(self, store: int, buyer: str, number: int) -> None:
        purchase = self._store.sell(product_id=SHORT, buyer=buyer) if store == APP_STORE else ""
        body = (
            json.encode({"app_user_id": buyer, **self._store.receipt(purchase)})
            if purchase
            else self._system.receipts.receipt(store, buyer, SHORT)
        )
        await self._show(number, store, body)
        self._begin(self._end_short_life(buyer, purchase), self._endings)

    async def _end_short_life(self, buyer: str, purchase: str) -> None:
        """After some renewals. What the clock finishes afterwards is part of it: the paid time, or a grace period."""
        await asyncio.sleep(self._dice.uniform(0.1, 3.9) * SHORT_SECONDS)
        [act] = self._dice.choices(list(ENDINGS), list(ENDINGS.values()))

        async def end() -> None:
            if purchase:
                self._store.act(purchase, act)
            else:
                await self._act({"action": act, "app_user_id": buyer, "product_id": SHORT})

        await self._tried(f"{act} of a purchase", end)

    async def _act(self, action: dict[str, Any]) -> None:
        request = self._http.post(f"{self._project}/test_store/actions").header("idempotency-key", str(uuid4()))
        await ask(request.body_json(action))

    async def _tidy(self) -> None:
        """The emulator forgets what has ended, so that its work does not grow."""
        over = real_now() - 10 * MINUTE
        ended = (AppleStatus.EXPIRED, AppleStatus.REVOKED)
        kept = {
            id: purchase
            for id, purchase in self._store.books.purchases.items()
            if purchase.status not in ended or (purchase.latest.expires_at or 0) > over
        }
        self._store.books = replace(self._store.books, purchases=kept)
        self._store.outbox.messages[:] = self._store.outbox.waiting()
        await asyncio.sleep(TIDIED_EVERY)

    async def _move_clock(self) -> None:
        """A test clock with a few customers, two months ahead, and all of it deleted."""
        clock = await ask(self._http.post(f"{self._project}/test_clocks").body_json({"name": "soak"}))
        own = f"{self._project}/test_clocks/{clock['id']}"
        buyers = [f"{clock['id']}-{number}" for number in range(3)]
        for buyer in buyers:
            given = {"id": buyer, "test_clock_id": clock["id"]}
            await ask(self._http.post(f"{self._project}/customers").body_json(given))
            await self._act({"action": "purchase", "app_user_id": buyer, "product_id": "pro_monthly"})
        await ask(self._http.post(f"{own}/advance").body_json({"by": "P2M"}))
        for buyer in buyers:
            await ask(self._http.delete(f"{self._project}/customers/{buyer}"))
        await ask(self._http.delete(own))

    # -- Reads ----------------------------------------------------------------------------------------------------

    def _somebody(self) -> tuple[int, str]:
        number = self._dice.randrange(max(1, self._customers))
        return number, f"soak-{number}"

    async def _read_v1(self) -> None:
        number, who = self._somebody()
        await self._system.phones.read(f"{self._system.url}/v1/subscribers/{who}", number, APP_STORE)

    async def _read_v2(self) -> None:
        _, who = self._somebody()
        reply = await self._http.get(f"{self._project}/customers/{who}").build().send()
        # Somebody whose first purchase is on its way is not known yet.
        if reply.status not in (200, 404):
            raise RuntimeError(f"status {reply.status}")
        await reply.bytes()

    async def _look_at_chart(self) -> None:
        self._chart += 1
        name = CHARTS[self._chart % len(CHARTS)].name
        reply = await self._http.get(f"{self._project}/charts/{name}").build().send()
        # One needs an experiment, which the demo has not.
        if reply.status not in (200, 400):
            raise RuntimeError(f"status {reply.status} {name}")
        await reply.bytes()

    def _opened(self, path: str) -> Work:
        async def load() -> None:
            page = f"{self._system.url}/dashboard/projects/{PROJECT_ID}{path}"
            reply = await self._browser.get(page).header("cookie", self._cookie).build().send()
            if reply.status != 200:
                raise RuntimeError(f"status {reply.status} {path}")
            await reply.bytes()

        return load

    async def _watch(self) -> None:
        """The stream of an open list of events, until the server ends it."""
        page = f"{self._system.url}/dashboard/projects/{PROJECT_ID}/events/stream"
        request = self._browser.get(page).header("cookie", self._cookie).header("accept", "text/event-stream")
        async with request.build_streamed() as reply:
            if reply.status != 200:
                raise RuntimeError(f"status {reply.status}")
            while await reply.body_reader.read_chunk() is not None:
                pass

    # -- What became of it ----------------------------------------------------------------------------------------

    def since_the_last_sample(self) -> dict[str, list[float]]:
        taken, self.taken = self.taken, defaultdict(list)
        return taken
