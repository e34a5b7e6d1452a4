"""The device's screen: Chromium with the app's page, the bridge in every document, notifications on top."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from playwright import async_api

from latchkey.runtime.chromium import FLAGS, find_chromium, require_screen
from latchkey.runtime.device_errors import CannotShowError
from latchkey.runtime.push_service import ArrivedNotification

PHONE = "Pixel 7"
SHOWN_SECONDS = 6
_BANNER = files("latchkey.runtime").joinpath("banner.js").read_text(encoding="utf-8").rstrip()


class DeviceScreen:
    def __init__(
        self,
        playwright: async_api.Playwright,
        context: async_api.BrowserContext,
        page: async_api.Page,
        report: Callable[[str], None],
    ) -> None:
        self._playwright = playwright
        self.context = context
        self.page = page
        self._report = report
        self._session: async_api.CDPSession | None = None
        page.on("console", self._console_message)

    @classmethod
    async def start(
        cls,
        profile: Path,
        *,
        accepted_keys: Sequence[str],
        language: str,
        window: bool,
        offline: bool,
        report: Callable[[str], None],
    ) -> DeviceScreen:
        if window:
            require_screen()
        program = find_chromium()
        playwright = await async_api.async_playwright().start()
        try:
            phone = {**playwright.devices[PHONE], "device_scale_factor": 2}
            phone.pop("default_browser_type")
            keys = [f"--ignore-certificate-errors-spki-list={','.join(accepted_keys)}"] if accepted_keys else []
            context = await playwright.chromium.launch_persistent_context(
                profile,
                executable_path=program,
                headless=not window,
                args=[*FLAGS, *keys],
                locale=language,
                offline=offline,
                # Ctrl-C is handled by us; we close the browser in order.
                handle_sigint=False,
                handle_sigterm=False,
                **phone,
            )
        except async_api.Error as error:
            await playwright.stop()
            raise CannotShowError(f"Chromium ({program}) did not start: {_first_line(error)}") from error
        return cls(playwright, context, context.pages[0], report)

    async def close(self) -> None:
        with contextlib.suppress(async_api.Error):
            await self.context.close()
        await self._playwright.stop()

    async def open(self, url: str) -> None:
        try:
            await self.page.goto(url, wait_until="load")
        except async_api.Error as error:
            raise CannotShowError(f"{url} cannot be shown: {_first_line(error)}") from error

    async def show(self, notification: ArrivedNotification, own: Callable[[str], bool]) -> None:
        """Shows it over the current page. A tap opens its address, if it is one of the app's own."""
        url = notification.url if notification.url and own(notification.url) else None
        card = json.dumps(
            [{"heading": notification.heading, "content": notification.content, "url": url}, SHOWN_SECONDS]
        )
        with contextlib.suppress(async_api.Error):
            # One session for all: it keeps the JavaScript world in which the earlier cards were created.
            session = self._session = self._session or await self.context.new_cdp_session(self.page)
            tree: Any = await session.send("Page.getFrameTree")
            world: Any = await session.send(
                "Page.createIsolatedWorld", {"frameId": tree["frameTree"]["frame"]["id"], "worldName": "latchkey"}
            )
            shown: Any = await session.send(
                "Runtime.evaluate", {"expression": f"{_BANNER}(...{card})", "contextId": world["executionContextId"]}
            )
            if "exceptionDetails" in shown:
                self._report("The notification could not be drawn on this page.")

    def when_elsewhere(self, own: Callable[[str], bool]) -> None:
        def navigated(frame: async_api.Frame) -> None:
            if frame is self.page.main_frame and frame.url.startswith("http") and not own(frame.url):
                self._report(f"{frame.url} is not one of the app's own addresses: no bridge there.")

        self.page.on("framenavigated", navigated)

    def _console_message(self, message: async_api.ConsoleMessage) -> None:
        if message.type in {"warning", "error"}:
            self._report(f"page: {message.text}")


def _first_line(error: async_api.Error) -> str:
    return error.message.splitlines()[0]
