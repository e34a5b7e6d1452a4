"""A service with its consumer, on a PostgreSQL of its own that PostgreSQL's tools back up and restore."""

import asyncio
import base64
import random
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from msgspec import json
from pyreqwest.client import Client as Http
from pyreqwest.client import ClientBuilder

from latchkey.client.client import Client
from latchkey.consumer.storage.consumer_storage import ConsumerStorage
from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.database.embedded.system_user import server_user
from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.now import real_now
from latchkey.process.supervision.listeners import bind
from latchkey.subjects.api_keys.usecases import create_secret_key
from latchkey.subjects.webhooks.receiver import ReceivedWebhook, Receiver, listening, tls
from latchkey.subjects.webhooks.rules import Setup
from latchkey.subjects.webhooks.usecases.registry import Registry
from tests.connections import migrated
from tests.convergence.processes import Killable
from tests.databases import drained
from tests.engine.fixtures import new_project
from tests.patience import PATIENCE
from tests.subjects.webhooks.delivery import certificates
from tests.subjects.webhooks.delivery.processes import SECRET_KEY

PROJECT = "proj_shop"
SECRET = "a webhook secret of the restore"
NO_LIMIT = 1_000_000
# Nothing here survives the run; a base backup needs whole pages.
FAST = {"fsync": "off", "synchronous_commit": "off", "shared_buffers": "32MB", "io_method": "sync", "autovacuum": "off"}
PRODUCTS = ("pro_monthly", "pro_yearly", "team_monthly", "pro_lifetime", "coins_100")
ACTS = ("purchase", "cancel", "uncancel", "refund", "extend", "fail_billing", "recover_billing")


def server(folder: Path, **settings: str) -> EmbeddedServer:
    return EmbeddedServer(folder, settings={**FAST, **settings})


def run(program: Path, *words: str | Path) -> str:
    """One of PostgreSQL's tools, as the user whom its server runs as."""
    user = server_user()
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [program, *map(str, words)],
        capture_output=True, text=True, cwd="/", timeout=PATIENCE,
        **user.switch,
    )  # fmt: skip
    assert done.returncode == 0, (program.name, done.returncode, done.stdout, done.stderr)
    return done.stdout


def folder_for_server(path: Path) -> Path:
    """A folder that the server may write to."""
    path.mkdir(mode=0o700, parents=True)
    server_user().own(path)
    server_user().open_way_to(path)
    return path


class World:
    """The service's processes, the consumer, and a receiver that notes everything. The processes can be moved to
    another database."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.arrivals: list[ReceivedWebhook] = []
        self.chances = random.Random(97)
        self._stack = AsyncExitStack()
        self._sockets = [bind("127.0.0.1", 0, 1)[0] for _ in range(2)]
        self._processes: dict[str, Killable] = {}

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        for one in self._sockets:
            self._stack.callback(one.close)
        self.certs = certificates.make(self.folder / "certificates")
        self.api, consumer = (f"https://localhost:{one.getsockname()[1]}" for one in self._sockets)
        receiver = Receiver(lambda arrival, _: self.arrivals.append(arrival))
        port = await self._stack.enter_async_context(listening(receiver, tls(*self.certs.good)))
        await migrated(self.url)
        async with Database(self.url, max_size=2) as database:
            await new_project(database, PROJECT, real_now())
            key = await create_secret_key(database, PROJECT, "shop", real_now(), rate_limit=NO_LIMIT)
            webhooks = Registry(database, Sealer(SECRET_KEY))
            to_consumer = Setup(
                name="consumer", url=f"{consumer}/webhooks/billing", authorization=f"Bearer {SECRET}",
                retry_seconds=(1,) * 60,
            )  # fmt: skip
            signing = (await webhooks.add(PROJECT, to_consumer, real_now())).secret
            to_receiver = Setup(name="receiver", url=f"https://localhost:{port}/")
            self.webhook = await webhooks.add(PROJECT, to_receiver, real_now())
        self.consumer = {
            "LATCHKEY_CONSUMER_SERVICE_URL": self.api,
            "LATCHKEY_CONSUMER_SERVICE_CA": str(self.certs.authority),
            "LATCHKEY_CONSUMER_PROJECT_ID": PROJECT,
            "LATCHKEY_CONSUMER_API_KEY": key.plaintext,
            "LATCHKEY_CONSUMER_WEBHOOK_SECRET": SECRET,
            "LATCHKEY_CONSUMER_SIGNING_SECRETS": signing,
            "LATCHKEY_CONSUMER_DATABASE_URL": f"sqlite:///{self.folder / 'consumer.db'}",
            "LATCHKEY_CONSUMER_TLS_CERT": str(self.certs.good[0]),
            "LATCHKEY_CONSUMER_TLS_KEY": str(self.certs.good[1]),
            "LATCHKEY_CONSUMER_SWEEP_SECONDS": "0",
        }
        http = ClientBuilder().add_root_certificate_pem(self.certs.authority.read_bytes()).http1_only()
        headers = {"authorization": f"Bearer {key.plaintext}", "content-type": "application/json"}
        self.http: Http = await self._stack.enter_async_context(http.default_headers(headers).build())
        self.client = await self._stack.enter_async_context(
            Client(self.api, key.plaintext, project_id=PROJECT, ca_cert=self.certs.authority)
        )
        self.store = ConsumerStorage(self.consumer["LATCHKEY_CONSUMER_DATABASE_URL"])
        self._stack.push_async_callback(self.store.close)
        self._stack.push_async_callback(self.stop, "api", "delivery", "consumer")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.__aexit__(None, None, None)

    @property
    def service(self) -> dict[str, str]:
        return {
            "LATCHKEY_DATABASE_URL": self.url,
            "LATCHKEY_SECRET_KEY": base64.b64encode(SECRET_KEY).decode(),
            "LATCHKEY_TLS_CERT": str(self.certs.good[0]),
            "LATCHKEY_TLS_KEY": str(self.certs.good[1]),
            "LATCHKEY_WEBHOOK_EXTRA_CA": str(self.certs.authority),
            "LATCHKEY_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8,::1/128",
            "LATCHKEY_SHUTDOWN_DELAY_SECONDS": "0",
        }

    async def start(self, *roles: str) -> None:
        sockets = {"api": self._sockets[0], "consumer": self._sockets[1]}
        for role in roles:
            environment = self.consumer if role == "consumer" else self.service
            self._processes[role] = Killable(role, self.folder, environment, sockets.get(role))
        await asyncio.gather(*(asyncio.to_thread(self._processes[role].start) for role in roles))

    async def stop(self, *roles: str) -> None:
        stopped = [one for role in roles if (one := self._processes.pop(role, None)) is not None]
        await asyncio.gather(*(asyncio.to_thread(one.stop) for one in stopped))

    async def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, Any]:
        asking = self.http.request(method, f"{self.api}{path}")
        if body is not None:
            asking = asking.body_bytes(json.encode(body))
        response = await asking.build().send()
        answer = json.decode(bytes(await response.bytes()))
        assert response.status < 500, (path, body, answer)
        return response.status, answer

    async def act(self, name: str, user: str, **more: Any) -> bool:
        """Whether the test store did it; some acts make no sense in the present state."""
        body = {"action": name, "app_user_id": user, **more}
        status, answer = await self.send("POST", f"/v2/projects/{PROJECT}/test_store/actions", body)
        assert status in (200, 404, 409, 422), answer
        return status == 200

    async def shop(self, users: Iterable[str], rounds: int) -> None:
        """Each buys something, then does as many things as there are rounds."""

        async def live(user: str, chances: random.Random) -> None:
            await self.act("purchase", user, product_id=chances.choice(PRODUCTS))
            for _ in range(rounds):
                name = chances.choice(ACTS)
                details: dict[str, dict[str, Any]] = {
                    "purchase": {"product_id": chances.choice(PRODUCTS)},
                    "extend": {"days": 3},
                }
                await self.act(name, user, **details.get(name, {}))

        await asyncio.gather(*(live(user, random.Random(self.chances.random())) for user in users))

    async def drained(self) -> None:
        async with Database(self.url, max_size=1) as database:
            await drained(database)

    async def answers(self, users: Iterable[str]) -> dict[str, Any]:
        """What the service says of these users and of the project."""
        paths = [f"/v1/subscribers/{user}" for user in users]
        for more in ("", "/events?limit=100", "/virtual_currencies", "/subscriptions"):
            paths += [f"/v2/projects/{PROJECT}/customers/{user}{more}" for user in users]
        paths += [f"/v2/projects/{PROJECT}/{name}?limit=100" for name in ("products", "api_keys", "entitlements")]
        paths.append(f"/v2/projects/{PROJECT}/integrations/webhooks")
        said = dict(zip(paths, await asyncio.gather(*(self.send("GET", path) for path in paths)), strict=True))
        for _, body in said.values():
            for moving in ("request_date", "request_date_ms"):
                body.pop(moving, None)
            for item in body.get("items", ()):
                # When a key was used, and how deliveries went: of one moment, and `after-restore` begins anew.
                item.pop("health", None)
                item.pop("last_used_at", None)
        said["feed"] = [await self.events()]  # type: ignore[assignment]  # bodies of events
        return said

    async def events(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        path: str | None = f"/v2/projects/{PROJECT}/events?limit=100"
        while path is not None:
            _, page = await self.send("GET", path)
            items += page["items"]
            path = page["next_page"]
        return items


def naive_copy(arrivals: Iterable[ReceivedWebhook]) -> dict[str, set[str]]:
    """What a simple receiver believes that users hold: it ignores repeated ids, and every event that is not newer, by
    its sequence, than the last one it took."""
    last: dict[str, int] = defaultdict(int)
    seen: set[str] = set()
    held: dict[str, set[str]] = {}
    for one in arrivals:
        event = json.decode(one.body)["event"]
        user, sequence = event["app_user_id"], event["sequence"]
        if event["id"] in seen or sequence <= last[user]:
            continue
        seen.add(event["id"])
        last[user] = sequence
        held[user] = set(event["entitlements"])
    return held
