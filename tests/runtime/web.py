"""A few pages on made-up origins, in real Chromium: nothing here needs a network."""

from collections.abc import Mapping

from playwright.async_api import BrowserContext, Page, Route

from latchkey.runtime.bridge_script import BridgeNames, bridge_script

APP = "https://app.example"
ID = "1dd608f2-c6a1-11e3-851d-000c2940e62c"

# The first script of a page.
EARLY = """
  window.before = window.pushplayerid;
  window.bridge = "getpushplayerid://";
  window.early = window.pushplayerid;
"""


class Web:
    """A browser context with a few pages on made-up origins."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.pages: dict[str, tuple[str, Mapping[str, str]]] = {}
        self.warnings: list[str] = []
        self.page: Page | None = None

    def put(self, url: str, body: str = "", script: str = "", kind: str = "text/html", **headers: str) -> None:
        html = f"<!doctype html><script nonce=ours>{script}</script><body>{body}" if kind == "text/html" else body
        self.pages[url] = html, {"content-type": kind, **{k.replace("_", "-"): v for k, v in headers.items()}}

    async def answer(self, route: Route) -> None:
        body, headers = self.pages.get(route.request.url, ("", {}))
        await route.fulfill(status=200 if route.request.url in self.pages else 404, body=body, headers=dict(headers))

    async def app(self, player_id: str | None = ID, names: BridgeNames | None = None) -> None:
        await self.context.add_init_script(bridge_script(player_id, [APP], names))

    async def open(self, url: str = f"{APP}/") -> Page:
        if self.page is None:
            self.page = await self.context.new_page()
            self.page.on("console", lambda message: self.warnings.append(f"{message.type}: {message.text}"))
        await self.page.goto(url)
        return self.page
