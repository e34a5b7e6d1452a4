"""A web page with the vendor's SDK, and the requests of a server beside it."""

import functools
import http.server
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from playwright.async_api import Browser, Page, Request

from tests.cli import running
from tests.cli.running import Up

SHOP = Path(__file__).parent / "shop.html"
DIALOG = ".rc-simulated-store-modal"


class _Files(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, files: dict[str, tuple[str, bytes]], *details: Any) -> None:
        self._files = files
        super().__init__(*details)

    def do_GET(self) -> None:
        kind, content = self._files.get(self.path, ("text/plain", b""))
        self.send_response(200 if content else 404)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(builds: Path) -> Iterator[str]:
    """The address of the shop: another origin than Latchkey's, as with every real shop."""
    files = {
        "/": ("text/html", SHOP.read_bytes()),
        "/Purchases.es.js": ("text/javascript", (builds / "Purchases.es.js").read_bytes()),
    }
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Files, files))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@dataclass
class Service:
    """A Latchkey in this process, as far as a page knows it."""

    connection: dict[str, Any]


@dataclass
class Shopper:
    """Somebody with a browser of their own in the shop."""

    up: Up | Service
    page: Page
    key: str
    console: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    async def configure(self, app_user_id: str | None = None) -> str:
        """The id of the customer: the given one, or a new anonymous one."""
        there = self.up.connection["base_url"]
        id: str = await self.page.evaluate("([...all]) => configure(...all)", [self.key, there, app_user_id])
        return id

    async def run(self, script: str, value: Any = None) -> Any:
        return await self.page.evaluate(script, value)

    async def holds(self) -> list[str]:
        """What the SDK takes for active, asked anew."""
        found: list[str] = await self.run("held()")
        return found

    async def buys(self, package: str, button: str = "Test valid purchase") -> Any:
        """Begin a purchase, press a button of the SDK's dialog, and wait for the outcome."""
        await self.run("(id) => buy(id)", package)
        await self.page.locator(DIALOG).get_by_role("button", name=button).click()
        await self.page.wait_for_function("window.outcome !== undefined")
        return await self.run("window.outcome")

    def sent(self, path: str) -> list[Request]:
        return [request for request in self.requests if urlsplit(request.url).path.endswith(path)]


@asynccontextmanager
async def shopping(browser: Browser, up: Up | Service, shop: str, key: str | None = None) -> AsyncIterator[Shopper]:
    # The certificate is of a local authority that this browser does not know.
    context = await browser.new_context(ignore_https_errors=True)
    page = await context.new_page()
    shopper = Shopper(up, page, key or up.connection["public_api_key"])
    page.on("console", lambda message: shopper.console.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: shopper.console.append(f"thrown: {error}"))
    page.on("request", lambda request: shopper.requests.append(request))
    await page.goto(shop)
    await page.wait_for_function("window.ready")
    try:
        yield shopper
    finally:
        await context.close()


def call(up: Up | Service, method: str, path: str, value: Any = None) -> Any:
    """A request of the shop's own server, with the secret key."""
    return running.call(up.connection, method, path, value)


def act(up: Up | Service, action: str, app_user_id: str, product_id: str) -> None:
    call(up, "POST", "test_store/actions", {"action": action, "app_user_id": app_user_id, "product_id": product_id})


def encoded(app_user_id: str) -> str:
    return quote(app_user_id, safe="")
