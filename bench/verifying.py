"""The ceiling of notifications: the same server and TLS, and a handler that only verifies the signatures.

Run as its own process: `python -m bench.verifying FD ROOT CERT KEY`, the root certificate as base64 of its PEM.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import uvloop

from latchkey.emulators.apple.keys import make_keys
from latchkey.now import real_now
from latchkey.server import Listener
from latchkey.settings import Settings
from latchkey.stores.adapter import ConnectedApp, Incoming
from latchkey.stores.apple.adapter import AppleAdapter

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Verifying:
    """An ASGI application."""

    def __init__(self, root_pem: str) -> None:
        self._adapter = AppleAdapter(real_now)
        keys = make_keys()
        given = {
            "bundle_id": "com.example.bench",
            "app_apple_id": 1_234_567_890,
            "issuer_id": keys.issuer_id,
            "key_id": keys.key_id,
            "private_key": keys.private_key,
            "root_certificates": [root_pem],
        }
        self._app = ConnectedApp(
            project_id="proj_bench",
            app_id="app_bench",
            store="app_store",
            credentials=self._adapter.parse_credentials(given, frozenset()),
            version=1,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
                if message["type"] == "lifespan.shutdown":
                    return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        await self._adapter.verify(self._app, Incoming(body=body, headers={}, received_at=real_now()))
        headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})


async def main(fd: int, root: str, cert: str, key: str) -> None:
    application = Verifying(base64.b64decode(root).decode())
    settings = Settings(tls_cert=Path(cert), tls_key=Path(key))
    await Listener(application, socket.socket(fileno=fd), settings).serve()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1]), *sys.argv[2:]))
