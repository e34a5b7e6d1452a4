"""`latchkey device URL`: a simulated phone on this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from latchkey.cli.command import argument, flag, option
from latchkey.cli.data_folder import read_json
from latchkey.cli.target_database import DATA
from latchkey.first_of import first_of
from latchkey.process.supervision.stop_signal import StoppedError, StopSignal
from latchkey.runtime.device_errors import CannotShowError, DeviceError

if TYPE_CHECKING:
    from latchkey.runtime.reference_device import Device


def device(
    url: str = argument("The https:// address of the app's web content."),
    window: bool = flag("Open a phone-sized window. Without it the phone runs in the background.", "--window"),
    offline: bool = flag("Start without a network.", "--offline"),
    deny_notifications: bool = flag("Act as a user who denies notifications.", "--deny-notifications"),
    origin: list[str] | None = option("Another origin that belongs to the app. Can be repeated."),
    push_url: str | None = option("The address of the push provider. Default: the one of `latchkey up`."),
    app_id: str | None = option("The app's id at the push provider."),
    ca: Path | None = option("A certificate authority to trust. Default: the one of `latchkey up`."),
    language: str = option("The phone's language.", default="en"),
    state: Path | None = option("The folder with the phone's data. Another folder is another phone."),
    data: Path = option("The data folder of a running `latchkey up`.", default=DATA),
) -> None:
    """Simulate a phone: shows web content in Chromium with the bridge, a player id and push notifications."""
    try:
        # Only this command needs Playwright.
        from latchkey.runtime.reference_device import Device, DeviceOptions
    except ModuleNotFoundError as error:
        raise DeviceError(f"{error.name} is not installed. Run `pip install 'latchkey[runtime]'`.") from None
    kept = read_json(data / "connection.json")
    found = kept.get("push") or {}
    authority = ca or (Path(kept["ca_cert"]) if "ca_cert" in kept else None)
    try:
        phone = Device(
            DeviceOptions(
                state=state or data / "device",
                origins=(url, *(origin or ())),
                push_url=push_url or found.get("base_url"),
                app_id=app_id or found.get("app_id") or "",
                ca=authority,
                language=language,
                notifications_allowed=not deny_notifications,
                offline=offline,
                window=window,
            ),
            _said,
        )
    except ValueError as error:
        raise DeviceError(str(error)) from None
    asyncio.run(_run(phone, url))


async def _run(phone: Device, url: str) -> None:
    signal = StopSignal()
    async with phone:
        _said(f"Player id: {phone.player_id or 'none'}")
        try:
            await signal.unless_asked(phone.open(url))
            _said(f"Showing {phone.page.url}. Press Ctrl-C to stop.")
        except CannotShowError as error:
            # Like on a phone: the app stays open, and the user may try again.
            _said(str(error))
        except StoppedError:
            return
        await first_of(signal.asked.wait(), phone.closed())


def _said(words: str) -> None:
    Console(highlight=False).print(escape(words), soft_wrap=True)
