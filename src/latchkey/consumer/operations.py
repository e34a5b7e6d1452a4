"""For operators: health, metrics, and events that were set aside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from sqlalchemy import text
from starlette.requests import Request
from starlette.responses import Response

from latchkey.consumer.event import Malformed, read_event
from latchkey.consumer.http import Refused, bearer, headers_of, matches, reply
from latchkey.consumer.instants import to_iso
from latchkey.consumer.intake import Intake
from latchkey.consumer.metrics import CONTENT_TYPE, Metrics
from latchkey.consumer.settings import Settings
from latchkey.consumer.storage.events import SetAside
from latchkey.consumer.storage.store import Store

log = structlog.get_logger()

PAGE = 100


@dataclass(frozen=True, slots=True)
class Reprocessed:
    event_id: str
    # processed, duplicate, late, or failed
    outcome: str
    error: str | None = None


class Operations:
    def __init__(self, store: Store, intake: Intake, settings: Settings, metrics: Metrics) -> None:
        self._store = store
        self._intake = intake
        self._settings = settings
        self._metrics = metrics

    async def reprocess(self, event_id: str) -> Reprocessed | None:
        """Try an event again; None if no such event was set aside."""
        found = await self._store.events.one_set_aside(event_id)
        return await self._again(found) if found is not None else None

    async def reprocess_all(self) -> list[Reprocessed]:
        found: list[SetAside] = []
        while page := await self._store.events.list_set_aside(after=found[-1].event_id if found else None, limit=PAGE):
            found += page
        # One after the other, in the order they arrived.
        return [await self._again(one) for one in sorted(found, key=lambda one: one.received_at)]

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
        return reply({"events": [_shown(one) for one in found]})

    async def reprocess_one(self, request: Request) -> Response:
        self._admit(request)
        done = await self.reprocess(request.path_params["event_id"])
        if done is None:
            raise Refused(404, "There is no such event set aside")
        return reply(done)

    async def reprocess_everything(self, request: Request) -> Response:
        self._admit(request)
        return reply({"events": await self.reprocess_all()})

    def _admit(self, request: Request) -> None:
        if not matches(bearer(headers_of(request)), self._settings.operator_token):
            raise Refused(401, "Unauthorized")

    async def _again(self, one: SetAside) -> Reprocessed:
        try:
            event = read_event(one.body)
        except Malformed as error:
            return Reprocessed(one.event_id, "failed", str(error))
        try:
            outcome = await self._intake.receive(event)
        except Exception as error:
            log.exception("event failed again", event_id=event.id, type=event.type)
            await self._intake.set_aside(event, error)
            return Reprocessed(one.event_id, "failed", f"{type(error).__name__}: {error}")
        return Reprocessed(one.event_id, outcome.value)


def _shown(one: SetAside) -> dict[str, Any]:
    return {
        "event_id": one.event_id,
        "event_type": one.event_type,
        "app_user_id": one.app_user_id,
        "error": one.error,
        "attempts": one.attempts,
        "received_at": to_iso(one.received_at),
        "last_attempt_at": to_iso(one.last_attempt_at),
        "body": msgspec.Raw(one.body),
    }
