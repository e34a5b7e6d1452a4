"""An application on a real socket of loopback."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

from latchkey.process.local_ca.authority import LocalCertificates
from latchkey.server import Listener
from latchkey.settings import Settings
from tests.patience import PATIENCE


@contextlib.asynccontextmanager
async def serving(application: Any, certificates: LocalCertificates | None = None) -> AsyncIterator[str]:
    """Its address; https:// with `certificates`."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    settings = Settings(behind_proxy=True)
    if certificates is not None:
        settings = Settings(tls_cert=certificates.cert, tls_key=certificates.key)
    listener = Listener(application, listening, settings)
    running = asyncio.create_task(listener.serve())
    try:
        yield f"{'https' if certificates else 'http'}://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listener.stop()
        await asyncio.wait_for(running, PATIENCE)
        listening.close()
