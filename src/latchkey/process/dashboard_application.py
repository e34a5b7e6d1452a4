"""The dashboard as one ASGI application, with all modules of pages. A new module must be listed here."""

import asyncio
from collections.abc import MutableMapping
from ipaddress import ip_address
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from latchkey.dashboard import static_files
from latchkey.dashboard.cookie import provider_of
from latchkey.dashboard.guard import Guard
from latchkey.dashboard.page import Page, status_of
from latchkey.dashboard.templates import are_cold, warm
from latchkey.database.transient_errors import PASSING, REFUSES_WRITES
from latchkey.domain.refusal import Refusal
from latchkey.http.services import Services
from latchkey.settings import Settings
from latchkey.subjects.accounts.page import account_page, sign_in, team_page
from latchkey.subjects.accounts.usecases.sessions import TooManyGuesses
from latchkey.subjects.api_keys import page as api_keys_page
from latchkey.subjects.audit import page as audit_page
from latchkey.subjects.bulk_grants import page as bulk_grants_page
from latchkey.subjects.catalog import page as catalog_page
from latchkey.subjects.charts.page import chart_pages, overview
from latchkey.subjects.currencies import page as currencies_page
from latchkey.subjects.customers.page import action_pages, customer_list_page, profile_page
from latchkey.subjects.deployment import page as deployment_page
from latchkey.subjects.events import page as events_page
from latchkey.subjects.experiments import page as experiments_page
from latchkey.subjects.exports import page as exports_page
from latchkey.subjects.money import page as money_page
from latchkey.subjects.offerings import page as offerings_page
from latchkey.subjects.projects import page as projects_page
from latchkey.subjects.purchase_intake import page as purchase_intake_page
from latchkey.subjects.request_log import page as request_log_page
from latchkey.subjects.search import page as search_page
from latchkey.subjects.test_clocks import page as test_clocks_page
from latchkey.subjects.test_store import page as test_store_page
from latchkey.subjects.webhooks.page import delivery_pages, webhook_pages

ALL = tuple(
    module.pages
    for module in (
        static_files,
        sign_in,
        account_page,
        deployment_page,
        overview,
        search_page,
        chart_pages,
        customer_list_page,
        profile_page,
        action_pages,
        bulk_grants_page,
        events_page,
        # Before the pages of one webhook, so that `new` is not taken for an id.
        webhook_pages,
        delivery_pages,
        catalog_page,
        offerings_page,
        money_page,
        test_clocks_page,
        experiments_page,
        currencies_page,
        projects_page,
        test_store_page,
        purchase_intake_page,
        # Before the pages of one export, so that `new` is not taken for an id.
        exports_page,
        api_keys_page,
        request_log_page,
        team_page,
        audit_page,
    )
)


# The dashboard as one ASGI application: every page goes through the guard, has the security headers, and every error
# is shown as a page.


# Only our own files, nothing inline: text stored by others cannot become code, however it gets onto a page.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    # The URL of a page contains customer ids; do not send it to other sites.
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
]
ALWAYS_TLS = (b"strict-transport-security", b"max-age=31536000")


def secure(message: Message, host: str) -> Message:
    headers = list(message.get("headers", ()))
    present = {name for name, _ in headers}
    headers += [header for header in HEADERS if header[0] not in present]
    if b"cache-control" not in present:
        headers.append((b"cache-control", b"no-store"))
    if is_public_name(host):
        headers.append(ALWAYS_TLS)
    return {**message, "headers": headers}


def is_public_name(host: str) -> bool:
    """On a local host name, HSTS would affect every other program on that name too."""
    name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return "." in name and not name.endswith((".localhost", ".local", ".test"))
    return False


log = structlog.get_logger()

EVERY_PAGE: tuple[Page, ...] = tuple(page for pages in ALL for page in pages.all)

_TITLES = {
    400: "That did not work",
    401: "You are signed out",
    403: "Not allowed",
    404: "Nothing here",
    405: "Method not allowed",
    409: "That did not work",
    413: "Too large",
    422: "That did not work",
    429: "Too many tries",
    503: "Back in a moment",
}


class Dashboard:
    def __init__(self, services: Services, settings: Settings) -> None:
        self._guard = Guard(services, settings)
        self._app = Starlette(routes=[self._guard.route(page) for page in EVERY_PAGE])
        self._app.router.redirect_slashes = False
        # Without the framework's own error handler, which would send plain text before we can show a page.
        self._app.middleware_stack = ExceptionMiddleware(
            self._app.router, handlers={HTTPException: self._refuse, Refusal: self._refuse}
        )
        self._app.state.openid = provider_of(settings)
        self._warming: asyncio.Future[None] | None = None
        # Set when the process is about to stop, so that live pages close their connections.
        self._app.state.closing = self.closing = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = secure(message, host=_header(scope, b"host"))
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception as error:
            route = getattr(scope.get("route"), "path", "unmatched")
            log.error("page failed", request_id=request_id(scope), path=route, exc_info=error)
            if started:
                raise
            status, words = _fault_of(error)
            await self._fault(Request(scope), status, words)(scope, receive, sending)
        finally:
            if self._warming is None and are_cold():
                # After the first page, which would have to share the CPU with it.
                self._warming = asyncio.get_running_loop().run_in_executor(None, warm)

    async def _refuse(self, request: Request, error: Exception) -> Response:
        status, words = status_of(error)
        page = self._fault(request, status, words)
        if isinstance(error, HTTPException):
            page.headers.update(error.headers or {})
        if isinstance(error, TooManyGuesses):
            page.headers["retry-after"] = str(-(-error.retry_after // 1000))
        return page

    def _fault(self, request: Request, status: int, words: str) -> Response:
        visit = self._guard.visit(request)
        return visit.page(
            "fault.html",
            status,
            title=_TITLES.get(status, "Something went wrong"),
            words=words,
            request_id=request_id(request.scope) if status >= 500 else None,
            back=_back(request),
        )


def _fault_of(error: Exception) -> tuple[int, str]:
    if isinstance(error, REFUSES_WRITES):
        return 503, "The database takes no changes right now: its disk is full, or it is read-only."
    if isinstance(error, PASSING):
        return 503, "The database does not answer right now."
    return 500, "An unexpected error in the service."


def request_id(scope: MutableMapping[str, Any]) -> str:
    exchange = scope.get("latchkey.exchange")
    return exchange.request_id.decode() if exchange is not None else ""


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def _back(request: Request) -> str:
    """The page this came from if it is one of ours, else the start page."""
    referer = request.headers.get("referer", "")
    host = request.headers.get("host", "")
    start = f"https://{host}/dashboard"
    return referer[len(start) - len("/dashboard") :] if referer.startswith(start) else "/dashboard"
