"""The health check of a container asks the service with the service's own settings."""

import ipaddress
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from latchkey.now import real_now
from latchkey.process.local_ca.authority import ensure_certificates
from latchkey.process.probe import probe
from latchkey.process.supervision.listeners import bind


@contextmanager
def service(certificates: tuple[Path, Path] | None = None) -> Iterator[dict[str, str]]:
    """Healthy but not ready. Yields its settings."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/healthz" else 503)
            self.end_headers()
            self.wfile.write(b"the reason")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    settings = {"LATCHKEY_PORT": str(server.server_address[1])}
    if certificates is not None:
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificates)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        settings |= {"LATCHKEY_TLS_CERT": str(certificates[0]), "LATCHKEY_TLS_KEY": str(certificates[1])}
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield settings
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_it_asks_where_the_service_listens(host: str, tls: bool, tmp_path: Path) -> None:
    made = ensure_certificates(tmp_path, [ipaddress.ip_address("10.0.0.1")], real_now()) if tls else None
    with service((made.cert, made.key) if made else None) as settings:
        assert probe({**settings, "LATCHKEY_HOST": host}, []) is None
        assert probe({**settings, "LATCHKEY_HOST": host}, ["ready"]) == "/readyz: 503 the reason"


def test_a_service_that_does_not_answer_is_not_healthy() -> None:
    (taken,) = bind("127.0.0.1", 0, 1)
    port = taken.getsockname()[1]
    taken.close()
    told = probe({"LATCHKEY_PORT": str(port)}, [])
    assert told is not None
    assert "refused" in told


def test_without_the_role_api_there_is_nothing_to_ask() -> None:
    assert probe({"LATCHKEY_ROLES": "clock,delivery", "LATCHKEY_PORT": "1"}, []) is None
