"""The consumer: composes storage, endpoints and background work."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from latchkey.client.client import Client
from latchkey.consumer.api.access_guard import AccessRefused, Guard, Identify, JwtUsers, refused
from latchkey.consumer.api.http_endpoint import Endpoint, reply, routes_of
from latchkey.consumer.api.operator_endpoints import OPERATOR_ENDPOINTS, ConsumerMetrics, OperatorEndpoints
from latchkey.consumer.api.user_endpoints import USER_ENDPOINTS, UserEndpoints
from latchkey.consumer.api.webhook_receiver import WebhookReceiver
from latchkey.consumer.billing_service import UNKNOWN, BillingService, Checked, View, check_connection
from latchkey.consumer.consumer_errors import AccessUnknownError
from latchkey.consumer.consumer_settings import Settings
from latchkey.consumer.event_intake import REREAD, Intake
from latchkey.consumer.job_runner import Handler, Runner
from latchkey.consumer.pushes import Pushes
from latchkey.consumer.reconcile import Reconciler
from latchkey.consumer.rules.record import LocalCopy
from latchkey.consumer.rules.timestamps import Ms
from latchkey.consumer.storage.consumer_storage import ConsumerStorage
from latchkey.consumer.storage.jobs import Job, NewJob
from latchkey.consumer.storage.schema import migrate

log = structlog.get_logger()

SWEEP = "sweep"
WEBHOOK_PATH = "/webhooks/billing"
REREAD_DEADLINE = 20.0
CHECK_DEADLINE = 10.0


def real_now() -> Ms:
    """The clock. Everything else gets the time as a parameter."""
    return time.time_ns() // 1_000_000


class Consumer:
    """Mount it in your own app, or run it on its own with `latchkey consumer`.

    `identify` finds the signed-in user's id in a request; by default from a JWT. `jobs` are additional kinds of
    background work, by name.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        identify: Identify | None = None,
        client: Client | None = None,
        jobs: Mapping[str, Handler] | None = None,
        now: Callable[[], Ms] = real_now,
    ) -> None:
        self.settings = settings
        self._store = ConsumerStorage(settings.database_url)
        self.client = client or Client(
            settings.service_url, settings.api_key, project_id=settings.project_id, ca_cert=settings.service_ca or None
        )
        self._identify = identify or JwtUsers(settings)
        self._now = now
        self._metrics = ConsumerMetrics()
        self._billing = BillingService(self._store, self.client, settings, now)
        self._pushes = Pushes(self._store, settings, now) if settings.pushes else None
        pushing = self._pushes.handlers if self._pushes is not None else {}
        handlers: dict[str, Handler] = {REREAD: self._reread, SWEEP: self._sweep, **pushing, **(jobs or {})}
        self._runner = Runner(self._store.jobs, handlers, now, workers=settings.job_workers)
        follow_up = self._pushes.follow_up if self._pushes is not None else None
        self._intake = Intake(self._store, now, jobs_added=self._runner.wake, follow_up=follow_up)
        self._reconciler = Reconciler(self._store, self._billing, self._intake, now)
        self._operations = OperatorEndpoints(self._store, self._intake, settings, self._metrics)
        self._receiver = WebhookReceiver(self._intake, settings, self._metrics)
        self._endpoints = UserEndpoints(self._billing, self._store, settings, self._identify, self._metrics, now)
        self._webhook = Endpoint(POST=self._receiver.receive)
        self.routes: list[BaseRoute] = [
            Route(WEBHOOK_PATH, self._webhook),
            *routes_of(self._endpoints, USER_ENDPOINTS),
            *routes_of(self._operations, OPERATOR_ENDPOINTS),
        ]
        self._connection: asyncio.Task[Checked] | None = None

    @asynccontextmanager
    async def lifespan(self, _: Any = None) -> AsyncIterator[None]:
        """Pass it to the app (`FastAPI(lifespan=consumer.lifespan)`), or enter it in your own lifespan."""
        await migrate(self._store.database)
        if self.settings.sweep_seconds:
            first = self._now() + self.settings.sweep_seconds * 1000
            # One job for all processes. One that waits until later, because a clock was ahead, runs then too.
            sweep = [NewJob(SWEEP, SWEEP)]
            await self._store.database.write(lambda connection: self._store.jobs.add(connection, sweep, first))
        self._runner.start()
        checking = asyncio.create_task(self.check_connection())
        try:
            yield
        finally:
            for task in (checking, self._connection):
                if task is not None:
                    task.cancel()
            await asyncio.wait({checking})
            await self._intake.drain()
            await self._runner.stop()
            await self.client.close()
            if self._pushes is not None:
                await self._pushes.close()
            await self._store.close()

    async def check_connection(self, deadline: float = CHECK_DEADLINE) -> Checked:
        """Whether the service can be reached and accepts the key. Checked once per start, in the background: the
        consumer receives events and answers from local records even while the service is unreachable."""
        if self._connection is None:
            self._connection = asyncio.create_task(self._check(deadline))
        return await asyncio.shield(self._connection)

    async def _check(self, deadline: float) -> Checked:
        found = await check_connection(self.client, deadline)
        if found.problem is not None:
            log.error("the service cannot be asked", problem=found.problem, settings_are_wrong=found.certain)
        return found

    def install(self, app: Starlette) -> None:
        """Add the endpoints and the guard's error handler to a FastAPI or Starlette app."""
        app.router.routes.extend(self.routes)
        app.add_exception_handler(AccessRefused, refused)

    @property
    def app(self) -> Starlette:
        """A separate application: to be served directly, or mounted (a mounted app's lifespan does not run: pass it to
        the outer app)."""
        return Starlette(
            routes=self.routes,
            lifespan=self.lifespan,
            exception_handlers={HTTPException: _http_error, AccessRefused: refused},
        )

    @property
    def _standalone(self) -> ASGIApp:
        """`app` for a server without anything around it. Webhooks go to their endpoint directly, past the routing and
        the framework's error handlers, which it does not need."""
        app, webhook = self.app, self._webhook

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            is_webhook = scope["type"] == "http" and scope["path"] == WEBHOOK_PATH
            await (webhook if is_webhook else app)(scope, receive, send)

        return serve

    def require_entitlement(self, entitlement_id: str) -> Guard:
        """`Depends(consumer.require_entitlement("pro"))` in FastAPI, `@consumer.require_entitlement("pro")` on a
        Starlette route."""
        return Guard(entitlement_id, self._billing, self._identify)

    async def view(self, app_user_id: str) -> View:
        """What is known about a user now: the local copy if the verification rule trusts it, else V2."""
        return await self._endpoints.view(app_user_id)

    async def has_entitlement(self, app_user_id: str, entitlement_id: str) -> bool:
        """Raises AccessUnknownError if neither the service nor a local record can answer."""
        view = await self.view(app_user_id)
        holds = view.lets(entitlement_id)
        if holds is None:
            raise AccessUnknownError(view.failure or UNKNOWN)
        return holds

    async def local(self, app_user_id: str) -> LocalCopy | None:
        """The local copy as it is, without verification; None if there is none."""
        return await self._billing.local(app_user_id)

    async def balances(self, app_user_id: str) -> dict[str, int | float]:
        """The user's virtual currency balances by code."""
        return await self._store.of_customer(app_user_id, self._store.events.balances)

    async def experiments(self, app_user_id: str) -> dict[str, str]:
        """The user's experiments: variant by experiment id."""
        return await self._store.of_customer(app_user_id, self._store.events.experiments)

    async def invoices(self, app_user_id: str) -> list[bytes]:
        """The user's invoices, oldest first: each the whole event as received."""
        return await self._store.of_customer(app_user_id, self._store.events.invoices)

    async def later(self, job: NewJob) -> None:
        """Add a background job; it survives a restart."""
        await self._store.database.write(lambda connection: self._store.jobs.add(connection, [job], self._now()))
        self._runner.wake()

    async def _reread(self, job: Job) -> None:
        await self._billing.refresh(job.key, details=True, deadline=REREAD_DEADLINE)

    async def _sweep(self, _: Job) -> Ms:
        await self._reconciler.sweep()
        return self._now() + self.settings.sweep_seconds * 1000


async def _http_error(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return reply({"error": "Not found" if status == 404 else str(getattr(error, "detail", ""))}, status)
