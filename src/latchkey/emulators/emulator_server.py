"""A store emulator on the network: its API, and beside it the control API, which is always on loopback only."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from latchkey.emulators.control_api import application as control_application
from latchkey.emulators.emulator import Emulator
from latchkey.server import Listener
from latchkey.settings import Settings

_DRAIN_SECONDS = 5.0
_LOOPBACK = "127.0.0.1"


class ServedEmulator(msgspec.Struct, frozen=True):
    base_url: str
    control_url: str


class EmulatorTls(msgspec.Struct, frozen=True):
    cert: Path
    key: Path


def bind(host: str, port: int) -> socket.socket:
    """Raises OSError if it cannot be had."""
    listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setblocking(False)
    return listening


@contextlib.asynccontextmanager
async def running(
    store: Emulator[Any, Any],
    *,
    listening: socket.socket | None = None,
    control: socket.socket | None = None,
    tls: EmulatorTls | None = None,
    shown_host: str = _LOOPBACK,
    before_control: Callable[[str], Awaitable[None]] | None = None,
) -> AsyncIterator[ServedEmulator]:
    """Serves until the block ends. Without sockets, on free ports of loopback. `before_control` gets the address of the
    store's API, which answers already; the control API does when it is done."""
    own = listening or bind(_LOOPBACK, 0)
    other = control or bind(_LOOPBACK, 0)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(own.close)
        stack.callback(other.close)
        stack.push_async_callback(store.close)
        await stack.enter_async_context(_listening(store.application(), own, tls))
        base_url = f"{'https' if tls else 'http'}://{shown_host}:{own.getsockname()[1]}"
        if before_control is not None:
            await before_control(base_url)
        await stack.enter_async_context(_listening(control_application(store), other, None))
        yield ServedEmulator(base_url, f"http://{_LOOPBACK}:{other.getsockname()[1]}/control")


async def keep_time(store: Emulator[Any, Any], every: float = 0.5) -> None:
    """Lets a clock that ticks bring what it brings, for ever."""
    while True:
        await store.move(store.clock.now())
        await asyncio.sleep(every)


@contextlib.asynccontextmanager
async def _listening(application: Any, listening: socket.socket, tls: EmulatorTls | None) -> AsyncIterator[None]:
    settings = Settings(tls_cert=tls.cert, tls_key=tls.key) if tls else Settings(behind_proxy=True)
    listener = Listener(application, listening, settings)
    serving = asyncio.create_task(listener.serve())
    try:
        yield
    finally:
        listener.stop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(serving, _DRAIN_SECONDS)
