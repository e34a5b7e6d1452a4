"""The ceiling of notifications: the same server and TLS, and a handler that only verifies the signatures.

Run as its own process: `python -m bench.verifying FD ROOT CERT KEY`, the root certificate as base64 of its PEM.
"""

import asyncio
import base64
import socket
import sys
from pathlib import Path

import uvloop

from bench.ceilings import Bare
from bench.phones import APP
from latchkey.emulators.apple.apple_keys import make_apple_keys
from latchkey.now import real_now
from latchkey.server import Listener
from latchkey.settings import Settings
from latchkey.stores.adapter import ConnectedApp, Incoming
from latchkey.stores.apple.adapter import AppleAdapter


def verifying(root_pem: str) -> Bare:
    adapter, keys = AppleAdapter(real_now), make_apple_keys()
    given = {
        "bundle_id": APP.bundle_id,
        "app_apple_id": APP.app_apple_id,
        "issuer_id": keys.issuer_id,
        "key_id": keys.key_id,
        "private_key": keys.private_key,
        "root_certificates": [root_pem],
    }
    app = ConnectedApp(
        project_id="proj_bench",
        app_id="app_bench",
        store="app_store",
        credentials=adapter.credential_form.parse(given, frozenset()),
        version=1,
    )

    async def verify(_: str, body: bytes) -> bytes:
        await adapter.verify(app, Incoming(body=body, headers={}, received_at=real_now()))
        return b"{}"

    return Bare(verify)


async def main(fd: int, root: str, cert: str, key: str) -> None:
    application = verifying(base64.b64decode(root).decode())
    settings = Settings(tls_cert=Path(cert), tls_key=Path(key))
    await Listener(application, socket.socket(fileno=fd), settings).serve()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1]), *sys.argv[2:]))
