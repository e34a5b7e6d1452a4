"""An in-process client, and the shop that most API tests use: the demo catalog, a few keys, a clock that the test
moves."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from msgspec import json
from starlette.types import ASGIApp, Message

from latchkey.database.pool import Database
from latchkey.domain.customers.customer import Attribute
from latchkey.domain.stores.test_store.orders import Action, ActionName
from latchkey.engine.changes import Changes
from latchkey.engine.last_seen import Presence
from latchkey.http.services import Services
from latchkey.subjects.customers.usecases import edits as attributes
from latchkey.subjects.test_store import usecases as test_store

# 2027-01-15T08:00:00Z and a bit, so that truncating to seconds shows.
NOW = 1_800_000_000_123
DAY = 86_400_000
# 2227-01-15T08:00:00.123Z: what V2 says of access that was bought at NOW and never ends.
LIFETIME = 8_111_347_200_123
APP = "the app's key"
METRICS_KEY = "the key of the metrics"


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.decode(self.body)

    def __repr__(self) -> str:
        return f"<{self.status} {self.body[:300]!r}>"


@dataclass
class Client:
    app: ASGIApp
    key: str | None = None
    # The key of an app in the test store; sent where a request says `key=APP`.
    public: str | None = None
    # Where requests come from.
    address: str = "127.0.0.1"
    # How many bytes of request bodies the application has asked for.
    bytes_read: int = 0

    async def get(self, path: str, **options: Any) -> Reply:
        return await self.request("GET", path, **options)

    async def post(self, path: str, value: Any = None, **options: Any) -> Reply:
        body = json.encode(value) if value is not None else options.pop("body", b"")
        return await self.request("POST", path, body=body, **options)

    async def request(
        self,
        method: str,
        path: str,
        *,
        key: str | None = "",
        headers: Mapping[str, str] | None = None,
        body: bytes | Iterable[bytes] = b"",
        content_type: str | None = "application/json",
    ) -> Reply:
        """`path` goes out as it is written. `key=None` sends none; by default the client's own is sent."""
        sent = {"host": "localhost"}
        key = self.public if key == APP else key
        if key is not None and (key or self.key):
            sent["authorization"] = f"Bearer {key or self.key}"
        if content_type is not None:
            sent["content-type"] = content_type
        if isinstance(body, bytes):
            if body:
                sent["content-length"] = str(len(body))
            body = [body]
        sent.update(headers or {})
        raw_path, _, query = path.partition("?")
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "https",
            "path": raw_path,
            "raw_path": raw_path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()],
            "client": (self.address, 1),
            "server": ("localhost", 443),
            "state": {},
        }
        return await self._exchange(scope, body)

    async def _exchange(self, scope: dict[str, Any], body: Iterable[bytes]) -> Reply:
        chunks = iter(body)
        started: dict[str, Any] = {}
        received = bytearray()

        async def receive() -> Message:
            chunk = next(chunks, None)
            if chunk is None:
                return {"type": "http.request", "body": b"", "more_body": False}
            self.bytes_read += len(chunk)
            return {"type": "http.request", "body": chunk, "more_body": True}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                assert not started, "a reply began twice"
                started.update(message)
            else:
                received.extend(message.get("body", b""))

        await self.app(scope, receive, send)
        assert started, "there was no reply"
        headers: dict[str, str] = {}
        for name, value in started["headers"]:
            assert name.decode() not in headers, f"{name.decode()} was sent twice"
            headers[name.decode()] = value.decode("latin-1")
        return Reply(started["status"], headers, bytes(received))


@asynccontextmanager
async def running(app: ASGIApp) -> AsyncIterator[None]:
    """The application, running until the end of the block."""
    inbox: asyncio.Queue[Message] = asyncio.Queue()
    outbox: asyncio.Queue[Message] = asyncio.Queue()

    async def live() -> None:
        await app({"type": "lifespan", "asgi": {"version": "3.0"}}, inbox.get, outbox.put)

    task = asyncio.create_task(live())
    for word in ("startup", "shutdown"):
        await inbox.put({"type": f"lifespan.{word}"})
        answer = await outbox.get()
        assert answer["type"] == f"lifespan.{word}.complete", answer
        if word == "startup":
            try:
                yield
            except BaseException:
                task.cancel()
                raise
    await task


@dataclass
class Clock:
    now: int = NOW

    def __call__(self) -> int:
        return self.now


@dataclass
class Shop:
    database: Database
    client: Client
    clock: Clock
    changes: Changes
    secret: str
    public: str
    project_id: str = "proj_demo"
    _purchases: Iterable[int] = field(default_factory=lambda: iter(range(1, 1_000_000)))

    async def act(self, name: ActionName, app_user_id: str, product_id: str, **options: Any) -> None:
        new_id = f"txn_{next(iter(self._purchases))}"
        action = Action(name=name, app_user_id=app_user_id, product_id=product_id, new_id=new_id, **options)
        await test_store.act(self.changes, self.project_id, action)

    async def note(self, app_user_id: str, **values: str) -> None:
        noted = {name.replace("__", "$"): Attribute(value, self.clock.now) for name, value in values.items()}
        await attributes.set_attributes(self.changes, self.project_id, app_user_id, noted, create=True)

    @property
    def presence(self) -> Presence:
        """What the application has noted and not yet written."""
        front: Any = self.client.app
        services: Services = front.reads._services
        return services.presence

    async def v1(self, app_user_id: str, **options: Any) -> Reply:
        return await self.client.get(f"/v1/subscribers/{app_user_id}", **options)

    async def v2(self, app_user_id: str, more: str = "", **options: Any) -> Reply:
        return await self.client.get(f"/v2/projects/{self.project_id}/customers/{app_user_id}{more}", **options)
