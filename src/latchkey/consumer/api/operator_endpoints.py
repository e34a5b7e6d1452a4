"""For operators: health, metrics, and events that were set aside."""

from typing import Any

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import asdict
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from sqlalchemy import text
from starlette.requests import Request
from starlette.responses import Response

from latchkey.consumer.api.http_endpoint import Endpoints, RequestRefused, bearer, headers_of, matches, reply
from latchkey.consumer.consumer_settings import Settings
from latchkey.consumer.event_intake import Intake
from latchkey.consumer.rules.event_handlers import HANDLERS
from latchkey.consumer.rules.received_event import MalformedEvent, read_event
from latchkey.consumer.rules.timestamps import to_iso
from latchkey.consumer.storage.consumer_storage import ConsumerStorage
from latchkey.consumer.storage.copy_tables import SetAside

log = structlog.get_logger()

PAGE = 100
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class ConsumerMetrics:
    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._events = Counter("latchkey_consumer_events", "Events received.", ("type", "outcome"), registry=registry)
        # Finding the counter of a type costs more than counting.
        self._counters: dict[tuple[str, str], Counter] = {}
        self.refused = Counter(
            "latchkey_consumer_webhooks_refused", "Webhooks refused.", ("reason",), registry=registry
        )
        self.webhook_seconds = Histogram(
            "latchkey_consumer_webhook_seconds",
            "Time from a webhook's arrival to its reply.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.views = Counter(
            "latchkey_consumer_views", "Questions about users, by who answered.", ("source",), registry=registry
        )
        self._jobs = Gauge("latchkey_consumer_jobs_waiting", "Background jobs to be done.", registry=registry)
        self._aside = Gauge("latchkey_consumer_events_set_aside", "Events set aside.", registry=registry)

    def received(self, event_type: str, outcome: str) -> None:
        # Otherwise a sender could fill the registry with types of its own.
        key = (event_type if event_type in HANDLERS else "unknown", outcome)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._events.labels(*key)
        counter.inc()

    def text(self, *, jobs_waiting: int, events_set_aside: int) -> bytes:
        self._jobs.set(jobs_waiting)
        self._aside.set(events_set_aside)
        return generate_latest(self.registry)


class ReprocessedEvent(Struct, frozen=True):
    event_id: str
    # processed, duplicate, late, or failed
    outcome: str
    error: str | None = None


class OperatorEndpoints:
    def __init__(self, store: ConsumerStorage, intake: Intake, settings: Settings, metrics: ConsumerMetrics) -> None:
        self._store = store
        self._intake = intake
        self._settings = settings
        self._metrics = metrics

    async def reprocess(self, event_id: str) -> ReprocessedEvent | None:
        found = await self._store.events.one_set_aside(event_id)
        return await self._again(found) if found is not None else None

    async def reprocess_all(self) -> list[ReprocessedEvent]:
        found: list[SetAside] = []
        while page := await self._store.events.list_set_aside(after=found[-1].event_id if found else None, limit=PAGE):
            found += page
        # One after the other, in the order they arrived.
        return [await self._again(event) for event in sorted(found, key=lambda event: event.received_at)]

    async def healthz(self, _: Request) -> Response:
        try:
            async with self._store.database.reading() as connection:
                await connection.execute(text("select 1"))
        except Exception:
            log.exception("health check failed")
            return reply({"status": "database unreachable"}, 503)
        return reply({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        self._admit(request)
        text = self._metrics.text(
            jobs_waiting=await self._store.jobs.waiting(), events_set_aside=await self._store.events.count_set_aside()
        )
        return Response(text, media_type=CONTENT_TYPE)

    async def list_set_aside(self, request: Request) -> Response:
        self._admit(request)
        after = request.query_params.get("starting_after")
        found = await self._store.events.list_set_aside(after=after, limit=PAGE)
        return reply({"events": [_shown(event) for event in found]})

    async def reprocess_one(self, request: Request) -> Response:
        self._admit(request)
        done = await self.reprocess(request.path_params["event_id"])
        if done is None:
            raise RequestRefused(404, "There is no such event set aside")
        return reply(done)

    async def reprocess_everything(self, request: Request) -> Response:
        self._admit(request)
        return reply({"events": await self.reprocess_all()})

    def _admit(self, request: Request) -> None:
        if not matches(bearer(headers_of(request)), self._settings.operator_token):
            raise RequestRefused(401, "Unauthorized")

    async def _again(self, set_aside: SetAside) -> ReprocessedEvent:
        try:
            event = read_event(set_aside.body)
        except MalformedEvent as error:
            return ReprocessedEvent(set_aside.event_id, "failed", str(error))
        outcome = await self._intake.receive_or_set_aside(event)
        if isinstance(outcome, Exception):
            return ReprocessedEvent(set_aside.event_id, "failed", f"{type(outcome).__name__}: {outcome}")
        return ReprocessedEvent(set_aside.event_id, outcome.value)


OPERATOR_ENDPOINTS: Endpoints[OperatorEndpoints] = {
    "/healthz": {"GET": OperatorEndpoints.healthz},
    "/metrics": {"GET": OperatorEndpoints.metrics},
    "/operations/set-aside": {"GET": OperatorEndpoints.list_set_aside},
    "/operations/set-aside/reprocess": {"POST": OperatorEndpoints.reprocess_everything},
    "/operations/set-aside/{event_id:path}/reprocess": {"POST": OperatorEndpoints.reprocess_one},
}


def _shown(set_aside: SetAside) -> dict[str, Any]:
    return {
        **asdict(set_aside),
        "received_at": to_iso(set_aside.received_at),
        "last_attempt_at": to_iso(set_aside.last_attempt_at),
        "body": msgspec.Raw(set_aside.body),
    }
