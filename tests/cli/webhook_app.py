"""A receiver of webhooks as a developer writes one: a thread with the standard library's server."""

import http.server
import ssl
import threading
from pathlib import Path
from typing import Self


class App:
    """Over HTTPS with a certificate and its key, else over plain HTTP. The test chooses the answer."""

    def __init__(self, cert: Path | None = None, key: Path | None = None) -> None:
        self.messages: list[tuple[str, dict[str, str], bytes]] = []
        self.answer: tuple[int, dict[str, str], bytes] = (200, {"content-type": "application/json"}, b'{"ok": true}')
        # Not set: requests are taken and not answered.
        self.answers = threading.Event()
        self.answers.set()
        app = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                app.messages.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                app.answers.wait()
                status, headers, reply = app.answer
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(reply))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if cert is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(cert, key)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        scheme = "https" if cert is not None else "http"
        self.url = f"{scheme}://localhost:{self.server.server_port}/hook?from=latchkey"

    def __enter__(self) -> Self:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.answers.set()
        self.server.shutdown()
        self.server.server_close()
