"""The ASGI application: the front, with FastAPI behind it."""

import re
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Router, compile_path
from starlette.types import ASGIApp

from latchkey.database.pool import Database
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Refusal
from latchkey.engine.changes import Deliverer
from latchkey.http import errors, health
from latchkey.http import openapi as http_openapi
from latchkey.http.exchange import SCOPE_KEY, WRITES_KEY, Exchange
from latchkey.http.front import AccessLog, Front, as_api_error
from latchkey.http.hot_reads import Reads
from latchkey.http.models import EMPTY_USER_ID, INVALID_USER_ID
from latchkey.http.services import Metrics, Services
from latchkey.observability.watch import Watch
from latchkey.settings import Settings
from latchkey.subjects.request_log.usecases import RequestLog

VERSION = version("latchkey")

# Where the framework found a value; not part of the field's name.
_PLACES = frozenset({"body", "query", "path", "header", "cookie"})
# The alternative of a field's type that it names; not part of the field's name either.
_BRANCH = re.compile(r"constrained-\w+|str|(list|dict)\[.+\]")

# The routers of all subjects. FastAPI matches a request against them in this order, so the busiest come first.
_ROUTERS = """
    purchase_intake.api.receipts.router purchase_intake.api.store_notifications.incoming_router test_store.api.router
    customers.api.customers_v1.subscribers_router customers.api.customers_v1.attributes_router
    customers.api.customers_v1.access_router purchases.api.transactions_v1.router offerings.api.v1_router
    checkout.api.router purchase_intake.api.phone.router customers.api.customers_v2.customers_router
    segments.api.router bulk_grants.api.router customers.api.customers_v2.customer_actions_router
    targeting.api.router offer_codes.api.router
    currencies.api.router purchases.api.purchases_v2.subscriptions_router purchases.api.purchases_v2.purchases_router
    events.api.router test_clocks.api.router experiments.api.router catalog.api.products_router offerings.api.router
    money.api.router catalog.api.entitlements_router projects.api.apps_router
    purchase_intake.api.credentials_v2.router store_products.api.router
    purchase_intake.api.store_notifications.store_notifications_router
    api_keys.api.router projects.api.router webhooks.api.webhooks_router webhooks.api.destinations_router
    webhooks.api.deliveries_router webhooks.api.operational_events_router exports.api.router charts.api.router
    mcp.api.router configuration.api.router purchase_links.api.v1_router purchase_links.api.router console.api.router
"""


_names = [name.rpartition(".") for name in _ROUTERS.split()]
# In this order their schemas are in the OpenAPI document.
_modules = {name: import_module(f"latchkey.subjects.{name}") for name in sorted({module for module, _, _ in _names})}
ROUTERS: tuple[APIRouter, ...] = (
    *(getattr(_modules[module], router) for module, _, router in _names),
    health.router,
)


@cache
def routes() -> FastAPI:
    """All routes, built once per process. They hold no state: the front adds it to each request."""
    app = FastAPI(
        title=http_openapi.TITLE,
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
                app.openapi_schema = http_openapi.document(app, VERSION)
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
    deliverer: Deliverer | None = None,
) -> ASGIApp:
    """The service as one ASGI application; `pages` makes its dashboard, `watch` has the metrics of its process,
    `restarting` names the processes of this machine that crash again and again, and `deliverer` sends its webhooks in
    this process. The database must be open. The lifespan starts and stops the background work of the application."""
    from latchkey.subjects.purchase_intake.api.receipts import ReceiptEndpoint

    metrics = Metrics()
    services = Services(database, settings, now, metrics, restarting, deliverer)
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
            await services.close()
            await requests.close()

    return Front(
        routes(),
        Router(lifespan=lifespan),
        services,
        Reads(services),
        ReceiptEndpoint(services),
        metrics,
        watch,
        requests,
        AccessLog(on=settings.access_log, one_in=settings.access_log_one_in),
        pages(services) if pages else None,
    )


def handle_faults(app: FastAPI) -> None:
    """Errors of the framework become our own. Call it after adding all routers: it collects the methods of paths."""
    methods = [
        (compile_path(context.path)[0], set(context.methods))
        for context in iter_route_contexts(app.routes)
        if context.path and context.methods
    ]

    async def answer(request: Request, error: Exception) -> Response:
        exchange: Exchange = request.scope[SCOPE_KEY]
        own = own_error(error, request.scope["path"], methods)
        own = await request.scope[WRITES_KEY].spared(exchange, own)
        body = own.body(exchange.version, exchange.request_id.decode())
        return Response(body, own.status, headers=own.headers, media_type="application/json")

    # After the handler of the last one it is raised again, so that the front can log the error.
    for kind in (HTTPException, RequestValidationError, Refusal, Exception):
        app.add_exception_handler(kind, answer)


def from_validation(error: RequestValidationError) -> errors.ApiError:
    """The first error, with the name of its field."""
    first: dict[str, Any] = error.errors()[0]
    names = [name for part in first["loc"] if part not in _PLACES and not _BRANCH.fullmatch(name := str(part))]
    param = ".".join(names) or None
    message = errors.said(first)
    if first["type"] in {EMPTY_USER_ID, INVALID_USER_ID}:
        return errors.InvalidAppUserId(message, param=param or "app_user_id", empty=first["type"] == EMPTY_USER_ID)
    if param is None:
        message = "Send a body: a JSON object." if first["type"] == "missing" else "The body must be a JSON object."
    return errors.InvalidParameter(f"{param}: {message}" if param else message, param=param)


def own_error(error: Exception, path: str, methods: list[tuple[re.Pattern[str], set[str]]]) -> errors.ApiError:
    if isinstance(error, RequestValidationError):
        return from_validation(error)
    if isinstance(error, errors.ApiError) or not isinstance(error, HTTPException) or error.status_code >= 500:
        return as_api_error(error)
    if error.status_code == 405:
        allowed = set().union(*(found for pattern, found in methods if pattern.match(path)))
        if "GET" in allowed:
            allowed.add("HEAD")
        return errors.MethodNotAllowed(sorted(allowed))
    return errors.NoSuchPath() if error.status_code == 404 else errors.BadRequest(str(error.detail))
