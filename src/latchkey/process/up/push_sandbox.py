"""The push sandbox of `latchkey up` and `latchkey push sandbox`: over TLS, with its data in a folder.

push.sqlite   devices and what was sent
push.json     its app id, its key and its port, so that the next start has the same ones
"""

import contextlib
import secrets
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from latchkey.cli.data_folder import PushConnection, read_json, write_json
from latchkey.now import real_now
from latchkey.process.local_ca.authority import LocalCertificates
from latchkey.process.supervision.listeners import bind_wished
from latchkey.push.sandbox.sandbox_app import Sandbox
from latchkey.push.sandbox.sandbox_database import SandboxDatabase
from latchkey.server import served
from latchkey.settings import Settings


@contextlib.asynccontextmanager
async def push_sandbox(
    folder: Path, certificates: LocalCertificates, *, host: str, shown_host: str, port: int = 0, first_port: int = 0
) -> AsyncIterator[PushConnection]:
    """On `port` if given, else on the last port, else on `first_port`; if that is taken, on any free port."""
    kept = _remembered(folder)
    listening = bind_wished(host, [port, kept["port"], first_port])
    kept["port"] = listening.getsockname()[1]
    write_json(folder / "push.json", kept)
    app_id, key = kept["app_id"], kept["rest_api_key"]
    sandbox = Sandbox(app_id, key, SandboxDatabase(str(folder / "push.sqlite")), real_now)
    tls = Settings(tls_cert=certificates.cert, tls_key=certificates.key)
    with contextlib.closing(listening), contextlib.closing(sandbox.database):
        async with served(sandbox.application, listening, tls):
            with contextlib.closing(sandbox.streams):
                yield PushConnection(base_url=f"https://{shown_host}:{kept['port']}", app_id=app_id, rest_api_key=key)


def _remembered(folder: Path) -> dict[str, Any]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = {"app_id": str(uuid.uuid4()), "rest_api_key": f"os_sandbox_{secrets.token_urlsafe(24)}", "port": 0}
    return {**new, **read_json(folder / "push.json")}
