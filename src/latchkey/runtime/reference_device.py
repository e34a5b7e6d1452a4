"""The reference device: does what a native app around web content does, with Chromium as its web view.

async with Device(DeviceOptions(state=folder, push_url=url, app_id=id, origins=(app,), ca=ca)) as device:
    await device.open(app)
    seen = await device.next_notification()
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from playwright import async_api

from latchkey.runtime.bridge_script import BridgeNames, bridge_script, origin_of
from latchkey.runtime.chromium import FLAGS, accepted_keys, find_chromium, require_screen
from latchkey.runtime.device_errors import CannotShowError, PushServiceError, UnknownDeviceError
from latchkey.runtime.device_identity import DeviceIdentity
from latchkey.runtime.push_service import ArrivedNotification, PushService

PHONE = "Pixel 7"
SHOWN_SECONDS = 6
_BANNER = files("latchkey.runtime").joinpath("banner.js").read_text(encoding="utf-8").rstrip()


class DeviceScreen:
    """Chromium with the app's page, the bridge in every document, notifications on top."""

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
                "Page.createIsolatedWorld",
                {"frameId": tree["frameTree"]["frame"]["id"], "worldName": "latchkey"},
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


FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOptions:
    state: Path
    origins: tuple[str, ...]
    push_url: str | None = None
    app_id: str = ""
    ca: Path | None = None
    names: BridgeNames = field(default_factory=BridgeNames)
    language: str = "en"
    notifications_allowed: bool = True
    offline: bool = False
    window: bool = False


class Device:
    def __init__(self, options: DeviceOptions, report: Callable[[str], None] = lambda _: None) -> None:
        self._options = options
        self._report = report
        self._origins = frozenset(origin_of(origin) for origin in options.origins)
        self._identity = DeviceIdentity(options.state)
        self._service: PushService | None = None
        self._screen: DeviceScreen | None = None
        self._listening: asyncio.Task[None] | None = None
        self._arrived: asyncio.Queue[ArrivedNotification] = asyncio.Queue()
        self.offline = options.offline
        self.shown: list[ArrivedNotification] = []

    @property
    def player_id(self) -> str | None:
        """The id given to web content; None if the user refused notifications."""
        if self._service is None or not self._options.notifications_allowed:
            return None
        return self._identity.player_id(self._service.name)

    @property
    def page(self) -> async_api.Page:
        return self._running_screen().page

    async def __aenter__(self) -> Self:
        self._identity.claim()
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._stop_listening()
        if self._screen is not None:
            await self._screen.close()
        if self._service is not None:
            await self._service.close()
        self._identity.release()

    async def open(self, url: str) -> None:
        await self._running_screen().open(url)

    async def closed(self) -> None:
        """Until the window is closed."""
        gone = asyncio.Event()
        self._running_screen().context.on("close", lambda _: gone.set())
        self.page.on("close", lambda _: gone.set())
        await gone.wait()

    async def next_notification(self, within: float = 10.0) -> ArrivedNotification:
        return await asyncio.wait_for(self._arrived.get(), within)

    async def go_offline(self) -> None:
        self.offline = True
        await self._running_screen().context.set_offline(True)
        await self._stop_listening()

    async def go_online(self) -> None:
        self.offline = False
        await self._running_screen().context.set_offline(False)
        self._start_listening()

    async def _start(self) -> None:
        options = self._options
        if options.push_url is not None:
            ca = options.ca.read_bytes() if options.ca is not None else None
            self._service = PushService(options.push_url, options.app_id, self._identity.identifier, extra_ca=ca)
        if not options.offline:
            with contextlib.suppress(PushServiceError):
                await self._register()
        keys = await asyncio.to_thread(accepted_keys, options.ca, self._origins) if options.ca is not None else []
        self._screen = await DeviceScreen.start(
            self._identity.browser,
            accepted_keys=keys,
            language=options.language,
            window=options.window,
            offline=options.offline,
            report=self._report,
        )
        self._screen.when_elsewhere(self._own)
        await self._inject()
        if not options.offline:
            self._start_listening()

    async def _inject(self) -> None:
        """Into every document from now on. A later script overrides an earlier one."""
        script = bridge_script(self.player_id, self._origins, self._options.names)
        await self._running_screen().context.add_init_script(script)

    async def _register(self) -> None:
        """Register with the push service, or unsubscribe if the user refused notifications."""
        service, options = self._service, self._options
        if service is None:
            return
        known = self._identity.player_id(service.name)
        try:
            if options.notifications_allowed:
                self._identity.remember_player(service.name, await service.register(options.language))
            elif known is not None:
                await service.set_subscribed(known, options.language, subscribed=False)
        except UnknownDeviceError:
            self._identity.remember_player(service.name, None)
        except PushServiceError as error:
            self._report(str(error))
            raise

    def _start_listening(self) -> None:
        if self._service is not None and self._options.notifications_allowed and self._listening is None:
            self._listening = asyncio.create_task(self._listen(self._service))

    async def _stop_listening(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
            self._listening = None

    async def _listen(self, service: PushService) -> None:
        """While the device is online: stay registered, and show what arrives."""
        wait = FIRST_WAIT
        while True:
            began = time.monotonic()
            try:
                if (known := self.player_id) is None:
                    await self._register()
                    # The current page got no id; the next document gets it.
                    await self._inject()
                    continue
                async for notification in service.arrivals(known):
                    if self._identity.is_new(notification.id):
                        await self._show(notification)
            except UnknownDeviceError:
                self._report("The push service does not know this device any more.")
                self._identity.remember_player(service.name, None)
            except PushServiceError:
                pass
            if time.monotonic() - began > LONGEST_WAIT:
                wait = FIRST_WAIT
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)

    async def _show(self, notification: ArrivedNotification) -> None:
        await self._running_screen().show(notification, self._own)
        self._report(f"🔔 {notification.heading}: {notification.content}".replace("🔔 : ", "🔔 "))
        self.shown.append(notification)
        self._arrived.put_nowait(notification)

    def _own(self, url: str) -> bool:
        try:
            return origin_of(url) in self._origins
        except ValueError:
            return False

    def _running_screen(self) -> DeviceScreen:
        if self._screen is None:
            raise RuntimeError("the device is switched off: use it inside `async with`")
        return self._screen
