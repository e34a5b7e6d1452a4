"""Waits until the service is ready, checked like a client: over TLS, trusting only our authority."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from pathlib import Path


class NotReadyError(Exception):
    """The service listens but does not report that it is ready."""


class DidNotBecomeReadyError(Exception):
    """The service's processes did not start; their log says why."""


class ConsumerFailedError(Exception):
    """A command of the consumer failed; the message says why."""


async def wait_until_answering(host: str, port: int, authority: Path, patience: float = 15 * 60.0) -> None:
    trusted = ssl.create_default_context(cafile=str(authority))
    deadline = time.monotonic() + patience
    last = "no answer"
    while time.monotonic() < deadline:
        try:
            async with asyncio.timeout(60):
                last = await _status(host, port, trusted)
        except (OSError, TimeoutError, EOFError) as error:
            last = str(error) or type(error).__name__
        if last == "200":
            return
        await asyncio.sleep(0.05)
    raise NotReadyError(f"/readyz did not say 200 within {patience:.0f} s (it said: {last}).")


async def _status(host: str, port: int, trusted: ssl.SSLContext) -> str:
    reader, writer = await asyncio.open_connection(host, port, ssl=trusted)
    try:
        writer.write(f"GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        words = (await reader.readline()).decode(errors="replace").split()
        return words[1] if len(words) > 1 else "nothing"
    finally:
        writer.close()
        with contextlib.suppress(OSError, ssl.SSLError):
            await writer.wait_closed()
