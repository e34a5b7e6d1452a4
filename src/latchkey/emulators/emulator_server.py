"""A store emulator on the network: its API, and beside it the control API, which is always on loopback only."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from latchkey.emulators.control_api import application as control_application
from latchkey.emulators.emulator import Emulator
from latchkey.server import Listener
from latchkey.settings import Settings

_DRAIN_SECONDS = 5.0
_LOOPBACK = "127.0.0.1"
_PLAIN = Settings(behind_proxy=True)


class ServedEmulator(msgspec.Struct, frozen=True):
    base_url: str
    control_url: str


@contextlib.asynccontextmanager
async def running(
    store: Emulator[Any, Any],
    *,
    listening: socket.socket | None = None,
    control: socket.socket | None = None,
    tls: Settings | None = None,
    before_control: Callable[[str], Awaitable[None]] | None = None,
) -> AsyncIterator[ServedEmulator]:
    """Serves until the block ends. Without sockets, on free ports of loopback. `before_control` gets the address of the
    store's API, which answers already; the control API does when it is done."""
    own, other = listening or _free_port(), control or _free_port()
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(own.close)
        stack.callback(other.close)
        stack.push_async_callback(store.close)
        await stack.enter_async_context(_listening(store.application(), own, tls or _PLAIN))
        base_url = f"{'https' if tls else 'http'}://{_LOOPBACK}:{own.getsockname()[1]}"
        if before_control is not None:
            await before_control(base_url)
        await stack.enter_async_context(_listening(control_application(store), other, _PLAIN))
        yield ServedEmulator(base_url, f"http://{_LOOPBACK}:{other.getsockname()[1]}/control")


async def keep_time(store: Emulator[Any, Any]) -> None:
    """Lets a clock that ticks bring what it brings, for ever."""
    while True:
        await store.move(store.clock.now())
        await asyncio.sleep(0.5)


def _free_port() -> socket.socket:
    listening = socket.create_server((_LOOPBACK, 0))
    listening.setblocking(False)
    return listening


@contextlib.asynccontextmanager
async def _listening(application: Any, listening: socket.socket, settings: Settings) -> AsyncIterator[None]:
    listener = Listener(application, listening, settings)
    serving = asyncio.create_task(listener.serve())
    try:
        yield
    finally:
        listener.stop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(serving, _DRAIN_SECONDS)
