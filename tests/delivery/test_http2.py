from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from latchkey.delivery.sending.sender import Sender
from latchkey.delivery.webhook import Setup, Webhook, new_secret
from latchkey.domain.webhooks.health import HEALTHY
from latchkey.server import Listener
from latchkey.settings import Settings
from tests.delivery.certificates import Certificates
from tests.delivery.conftest import now_ms
from tests.delivery.test_sender import LOOPBACK
from tests.patience import PATIENCE


async def test_http2_is_spoken_where_it_is_offered(certs: Certificates) -> None:
    spoken: list[str] = []

    async def application(
        scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if scope["type"] == "http":
            spoken.append(scope["http_version"])
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"ok"})

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        server = Listener(application, listening, Settings(tls_cert=certs.good[0], tls_key=certs.good[1]))
        serving = asyncio.create_task(server.serve())
        sender = Sender(now_ms, timeout_ms=60_000, allowed=LOOPBACK, extra_ca=certs.authority)
        setup = Setup(name="x", url=f"https://localhost:{port}/")
        webhook = Webhook(1, "p", "wh_1", 1, setup, HEALTHY, new_secret(), None, None, 0, 0)
        answers = [await sender.send(webhook, "ev_1", b"{}") for _ in range(3)]
        await sender.close()
        server.stop()
        await asyncio.wait_for(serving, PATIENCE)
    assert [one.status for one in answers] == [200, 200, 200], answers
    assert set(spoken) == {"2"}
