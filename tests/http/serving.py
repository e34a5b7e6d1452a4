"""The application on a real socket of loopback, without TLS."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

from latchkey.server import Listener
from latchkey.settings import Settings


@contextlib.asynccontextmanager
async def serving(application: Any) -> AsyncIterator[str]:
    """Its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    listener = Listener(application, listening, Settings(behind_proxy=True))
    running = asyncio.create_task(listener.serve())
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listener.stop()
        await running
        listening.close()
