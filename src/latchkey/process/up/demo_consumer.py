"""The reference consumer of `latchkey up`: its secrets, port, webhook and demo users.

consumer.json   what the next `up` must reuse
consumer.db     the local copy
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import jwt
import msgspec
import structlog

from latchkey.cli.data_folder import Connection, ConsumerConnection, DemoUser, PushConnection, read_json, write_json
from latchkey.database.pool import Database
from latchkey.domain.refusal import NotFound
from latchkey.now import real_now
from latchkey.process.local_ca.authority import LocalCertificates
from latchkey.process.supervision.listeners import bind_wished
from latchkey.process.supervision.supervisor import Child
from latchkey.settings import Settings
from latchkey.subjects.api_keys.usecases import create_secret_key, find_key
from latchkey.subjects.webhooks.usecases.registry import registry_of

MODULE = "latchkey.process.up.consumer_server"
NAME = "Demo consumer"
USERS = ("alice", "bob", "carol")
WEBHOOK_PATH = "/webhooks/billing"
_TEN_YEARS = 10 * 365 * 24 * 3600


class _Kept(msgspec.Struct):
    webhook_secret: str
    jwt_secret: str
    operator_token: str
    # Epoch seconds.
    tokens_expire: int
    port: int = 0
    api_key: str | None = None
    webhook_id: str | None = None


class DemoConsumer:
    def __init__(self, folder: Path, host: str, shown_host: str, first_port: int) -> None:
        self._folder = folder
        self._kept = _remembered(folder)
        listening = bind_wished(host, [self._kept.port, first_port])
        self._kept.port = listening.getsockname()[1]
        self.child = Child("consumer", ("consumer",), listening, module=MODULE)
        self.base_url = f"https://{shown_host}:{self._kept.port}"

    @property
    def connection(self) -> ConsumerConnection:
        kept = self._kept
        return ConsumerConnection(
            base_url=self.base_url,
            webhook_url=self.base_url + WEBHOOK_PATH,
            webhook_secret=kept.webhook_secret,
            operator_token=kept.operator_token,
            users=[
                DemoUser(id, jwt.encode({"sub": id, "exp": kept.tokens_expire}, kept.jwt_secret, algorithm="HS256"))
                for id in USERS
            ],
        )

    async def connect(self, database: Database, project_id: str, settings: Settings) -> None:
        """Creates its own key, so that it does not use up another one's rate limit, and its webhook."""
        kept, now = self._kept, real_now()
        known = await find_key(database, kept.api_key) if kept.api_key else None
        if known is None or known.project_id != project_id:
            issued = await create_secret_key(database, project_id, NAME, now, scopes={"read"})
            kept.api_key = issued.plaintext
        registry = registry_of(database, settings)
        setup = {
            "name": NAME,
            "url": self.base_url + WEBHOOK_PATH,
            "authorization_header": f"Bearer {kept.webhook_secret}",
        }
        try:
            if kept.webhook_id is None:
                raise NotFound("There is none yet.")
            await registry.update(project_id, kept.webhook_id, {"url": setup["url"]}, now)
        except NotFound:
            made = await registry.create(project_id, setup, now)
            kept.webhook_id = made.id
        write_json(self._folder / "consumer.json", kept)

    async def begin_after(self, event_id: str) -> None:
        """When the consumer first looks for missed events, it begins after this one. Call it while it runs."""
        # SQLAlchemy takes half a second to load, and only the first start with a history needs it.
        from latchkey.consumer.reconcile import CURSOR
        from latchkey.consumer.storage.consumer_storage import ConsumerStorage

        store = ConsumerStorage(f"sqlite:///{self._folder / 'consumer.db'}")
        try:
            if await store.events.progress(CURSOR) is None:
                await store.events.set_progress(CURSOR, event_id, real_now())
        finally:
            await store.close()

    def settings(
        self, service_url: str, project_id: str, certificates: LocalCertificates, push: PushConnection
    ) -> dict[str, Any]:
        kept = self._kept
        return {
            "service_url": service_url,
            "project_id": project_id,
            "api_key": kept.api_key,
            "service_ca": str(certificates.authority),
            # No signing secret: the values in connection.json are enough to send an event, even after a rotation.
            "webhook_secret": kept.webhook_secret,
            "database_url": f"sqlite:///{self._folder / 'consumer.db'}",
            "jwt_secret": kept.jwt_secret,
            "operator_token": kept.operator_token,
            "push_api_url": push.base_url,
            "push_app_id": push.app_id,
            "push_rest_api_key": push.rest_api_key,
            "push_ca": str(certificates.authority),
            "tls_cert": str(certificates.cert),
            "tls_key": str(certificates.key),
            "log_format": "json",
        }


def _remembered(folder: Path) -> _Kept:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = {name: secrets.token_urlsafe(32) for name in ("webhook_secret", "jwt_secret", "operator_token")}
    expires = {"tokens_expire": real_now() // 1000 + _TEN_YEARS}
    return msgspec.convert({**new, **expires, **read_json(folder / "consumer.json")}, _Kept)


log = structlog.get_logger()


@contextlib.asynccontextmanager
async def adding_history(
    consumer: DemoConsumer, connection: Connection, said: Callable[[str], None]
) -> AsyncIterator[None]:
    """Beside what is done within. What is not finished when that ends is given up: nothing was written then, and the
    next start tries again."""
    adding = asyncio.create_task(_add(consumer, connection, said))
    try:
        yield
    finally:
        adding.cancel()
        await asyncio.wait({adding})


async def _add(consumer: DemoConsumer, connection: Connection, said: Callable[[str], None]) -> None:
    # Loaded now: nobody should wait for this code before the service answers.
    from latchkey.subjects.demo.usecases.history import is_wanted, tell, write_history

    try:
        async with Database(connection.database_url, max_size=1, application_name="latchkey up") as database:
            if not await is_wanted(database, connection.project_id):
                return
            said("Adding a year of made-up customers to the demo project (--no-history leaves it out)")
            history = await tell(database, connection.project_id, real_now())
            if history.last_event_id is not None:
                # Before the events are there. Otherwise the consumer could take them for events that it missed.
                await consumer.begin_after(history.last_event_id)
            await write_history(database, connection.project_id, history, real_now())
    except Exception:
        # A demo without a history is still a demo. The next start tries again.
        log.exception("demo history not written")
    else:
        log.info("demo history written", customers=len(history.newcomers), events=len(history.events))
