"""The dashboard as one ASGI application: every page goes through the guard, has the security headers, and every error
is shown as a page."""

import asyncio
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

import latchkey
from latchkey.dashboard.cookie import provider_of
from latchkey.dashboard.guard import Guard
from latchkey.dashboard.page import Page, Visit, status_of
from latchkey.dashboard.templates import are_cold, warm
from latchkey.database.transient_errors import PASSING, REFUSES_WRITES
from latchkey.domain.refusal import Refusal
from latchkey.http.exchange import SCOPE_KEY, Exchange
from latchkey.http.services import Services
from latchkey.settings import Settings

# Only our own files, nothing inline: text stored by others cannot become code, however it gets onto a page.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
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


def _every_page() -> list[Page]:
    """Those of the shell and of each subject. In an order in which `new` is not taken for an id."""
    package = Path(latchkey.__file__).parent
    files = [*package.glob("subjects/*/page.py"), *package.glob("subjects/*/page/[!_]*.py")]
    names = [f"subjects.{'.'.join(file.relative_to(package / 'subjects').with_suffix('').parts)}" for file in files]
    modules = [import_module(f"latchkey.{name}") for name in ("dashboard.static_files", *names)]
    pages: list[Page] = [page for module in modules if hasattr(module, "pages") for page in module.pages.all]
    return sorted(pages, key=lambda page: [(part.startswith("{"), part) for part in page.path.split("/")])


EVERY_PAGE = tuple(_every_page())

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
                host = scope[SCOPE_KEY].headers.get(b"host", b"")
                message = secure(message, host.decode("latin-1"))
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception as error:
            route = getattr(scope.get("route"), "path", "unmatched")
            log.error("page failed", request_id=request_id(scope), path=route, exc_info=error)
            if started:
                raise
            status, words = 500, "An unexpected error in the service."
            if isinstance(error, REFUSES_WRITES):
                status, words = 503, "The database takes no changes right now: its disk is full, or it is read-only."
            elif isinstance(error, PASSING):
                status, words = 503, "The database does not answer right now."
            await self._fault(Request(scope), status, words)(scope, receive, sending)
        finally:
            if self._warming is None and are_cold():
                # After the first page, which would have to share the CPU with it.
                self._warming = asyncio.get_running_loop().run_in_executor(None, warm)

    async def _refuse(self, request: Request, error: Exception) -> Response:
        status, words = status_of(error)
        page = self._fault(request, status, words, await self._guard.visit_in_project(request))
        if isinstance(error, HTTPException):
            page.headers.update(error.headers or {})
        return page

    def _fault(self, request: Request, status: int, words: str, visit: Visit | None = None) -> Response:
        return (visit or self._guard.visit(request)).page(
            "fault.html",
            status,
            title=_TITLES.get(status, "Something went wrong"),
            words=words,
            request_id=request_id(request.scope) if status >= 500 else None,
            back=_back(request),
        )


def request_id(scope: Scope) -> str:
    exchange: Exchange = scope[SCOPE_KEY]
    return exchange.request_id.decode()


def _back(request: Request) -> str:
    """The page this came from if it is one of ours, else the start page."""
    referer = request.headers.get("referer", "")
    host = request.headers.get("host", "")
    start = f"https://{host}/dashboard"
    return referer[len(start) - len("/dashboard") :] if referer.startswith(start) else "/dashboard"
