"""The reference device: does what a native app around web content does, with Chromium as its web view.

async with Device(DeviceOptions(state=folder, push_url=url, app_id=id, origins=(app,), ca=ca)) as device:
    await device.open(app)
    seen = await device.next_notification()
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from playwright.async_api import Page

from latchkey.runtime.bridge_script import BridgeNames, bridge_script, origin_of
from latchkey.runtime.chromium import accepted_keys
from latchkey.runtime.device_errors import PushServiceError, UnknownDeviceError
from latchkey.runtime.device_identity import DeviceIdentity
from latchkey.runtime.push_service import ArrivedNotification, PushService
from latchkey.runtime.screen import DeviceScreen

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
    def page(self) -> Page:
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
