"""`python -m latchkey.process.probe`: asks the service of this machine whether it is alive.

With `ready` behind it, whether it is ready. It reads the same settings as the service. Without the role api there is
nothing to ask, and the supervisor restarts what ends or hangs.
"""

import http.client
import os
import ssl
import sys
from collections.abc import Mapping, Sequence

from latchkey.settings import Settings, gather

_TIMEOUT = 5.0
# The address to ask if the service listens on all of them.
_OWN = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound


def probe(environ: Mapping[str, str], words: Sequence[str]) -> str | None:
    """None if all is well, else what is wrong."""
    settings, _ = gather(environ)
    if "api" not in settings.roles:
        return None
    path = "/readyz" if "ready" in words else "/healthz"
    connection = _connection(settings)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        said = reply.read(1000).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return f"{path}: {error}"
    finally:
        connection.close()
    return None if reply.status == 200 else f"{path}: {reply.status} {said}"


def _connection(settings: Settings) -> http.client.HTTPConnection:
    host = _OWN.get(settings.host, settings.host)
    if not settings.tls:
        return http.client.HTTPConnection(host, settings.port, timeout=_TIMEOUT)
    # We ask ourselves, by an address that is in no certificate.
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(host, settings.port, timeout=_TIMEOUT, context=trusting)


if __name__ == "__main__":
    sys.exit(probe(os.environ, sys.argv[1:]))
