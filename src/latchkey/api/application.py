"""The ASGI application: the front, with FastAPI behind it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from starlette.routing import Router
from starlette.types import ASGIApp

from latchkey.api import documentation, health, incoming, reference
from latchkey.api.access_log import AccessLog
from latchkey.api.faults import handle_faults
from latchkey.api.front import Front
from latchkey.api.metrics import Metrics
from latchkey.api.rcbilling import checkout
from latchkey.api.reads import Reads
from latchkey.api.services import assemble
from latchkey.api.v1 import access, attributes, background, offerings, receipts, subscribers, transactions
from latchkey.api.v2 import (
    api_keys,
    apps,
    bulk_grants,
    credentials,
    currencies,
    currency_movements,
    customer_actions,
    customer_segments,
    customers,
    deliveries,
    entitlements,
    events,
    experiments,
    exports,
    money,
    operational_events,
    packages,
    placements,
    products,
    project,
    purchases,
    store_notifications,
    subscriptions,
    webhooks,
)
from latchkey.api.v2 import clocks as test_clocks
from latchkey.api.v2 import offerings as project_offerings
from latchkey.api.v2 import sandbox_store as test_store
from latchkey.api.writes import Writes
from latchkey.domain.instants import Ms
from latchkey.settings import Settings
from latchkey.storage.database import Database
from latchkey.subjects.charts import api as charts
from latchkey.usecases.access.request_log import RequestLog
from latchkey.usecases.services import Services
from latchkey.watching.watch import Watch

VERSION = version("latchkey")

# The routers of all resources. FastAPI matches a request against them in this order, so the busiest come first.
ROUTERS = (
    receipts.router,
    test_store.router,
    subscribers.router,
    attributes.router,
    access.router,
    transactions.router,
    offerings.router,
    checkout.router,
    background.router,
    customers.router,
    customer_segments.router,
    bulk_grants.router,
    customer_actions.router,
    currency_movements.router,
    subscriptions.router,
    purchases.router,
    events.router,
    test_clocks.router,
    experiments.router,
    products.router,
    project_offerings.router,
    packages.router,
    money.router,
    placements.router,
    entitlements.router,
    currencies.router,
    apps.router,
    credentials.router,
    store_notifications.router,
    api_keys.router,
    project.router,
    webhooks.router,
    deliveries.router,
    operational_events.router,
    exports.router,
    charts.router,
    incoming.router,
    health.router,
    reference.router,
)


@cache
def routes() -> FastAPI:
    """All routes, built once per process. They hold no state: the front adds it to each request."""
    app = FastAPI(
        title=documentation.TITLE,
        version=VERSION,
        redirect_slashes=False,
        # `reference` has them.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        routes=[route for router in ROUTERS for route in router.routes],
    )
    handle_faults(app)

    building = threading.Lock()

    def openapi() -> dict[str, Any]:
        with building:
            if app.openapi_schema is None:
                app.openapi_schema = documentation.document(app, VERSION)
            return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # the way FastAPI documents for extending the document
    return app


def create_application(
    database: Database,
    settings: Settings,
    now: Callable[[], Ms],
    pages: Callable[[Services], ASGIApp] | None = None,
    watch: Watch | None = None,
    restarting: Callable[[], Sequence[str]] = tuple,
) -> ASGIApp:
    """The service as one ASGI application; `pages` makes its dashboard, `watch` has the metrics of its process, and
    `restarting` names the processes of this machine that crash again and again. The database must be open. The lifespan
    starts and stops the background work of the application."""
    metrics = Metrics()
    services = assemble(database, settings, now, metrics, restarting)
    watch = watch or Watch(database, settings, now)
    watch.add(metrics)
    requests = RequestLog(
        database, now, behind_proxy=settings.behind_proxy, keeps_requests=bool(settings.request_log_kept_days)
    )
    metrics.requests_lost = lambda: requests.lost

    @asynccontextmanager
    async def lifespan(_: Router) -> AsyncIterator[None]:
        services.presence.start()
        requests.start()
        try:
            yield
        finally:
            await services.inbox.drain()
            await services.changes.drain()
            await services.charts.end()
            await services.presence.stop()
            await requests.close()
            await services.leases.close()
            await services.sender.close()
            await services.stores.close()

    return Front(
        routes(),
        Router(lifespan=lifespan),
        services,
        Reads(services),
        Writes(services),
        metrics,
        watch,
        requests,
        AccessLog(on=settings.access_log, one_in=settings.access_log_one_in),
        pages(services) if pages else None,
    )
