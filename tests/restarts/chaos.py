"""Two machines behind proxies with the shipped files, restarted in turn under load: `make chaos WHAT=restarts`. No
request may fail."""

import asyncio
import http.client
import ipaddress
import random
import re
import shutil
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain, cycle
from pathlib import Path

from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.database.pool import Database
from latchkey.now import real_now
from latchkey.process.local_ca.authority import LocalCertificates, ensure_certificates
from latchkey.settings import Settings
from latchkey.subjects.api_keys.usecases import create_secret_key
from latchkey.subjects.demo.usecases.project import PROJECT_ID, ensure_demo
from tests import machine
from tests.cli.running import Running, ask, free_port, serve
from tests.conftest import UNSAFE_BUT_FAST
from tests.connections import migrated
from tests.patience import PATIENCE, wait_until

FILES = Path(__file__).parents[2] / "deploy" / "proxy"
PROXIES = ("haproxy", "nginx")
# Of each proxy.
CLIENTS = 4
# A client's connection to the proxy is used so often, and then closed by the client.
REQUESTS = 50


class Client(threading.Thread):
    """Writes and reads a customer, again and again."""

    def __init__(self, name: str, port: int, authority: Path, key: str) -> None:
        super().__init__(daemon=True)
        self.path = f"/v1/subscribers/{name}"
        self.port, self.key = port, key
        self.trusted = ssl.create_default_context(cafile=authority)
        self.answers: Counter[str] = Counter()
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=self.trusted)
            try:
                for _ in range(REQUESTS):
                    self._ask(connection, "POST", "/attributes", b'{"attributes": {"a": {"value": "b"}}}')
                    self._ask(connection, "GET", "", None)
                    self.over.wait(0.02)
            except (OSError, http.client.HTTPException) as error:
                self.answers[repr(error)] += 1
            finally:
                connection.close()

    def _ask(self, connection: http.client.HTTPConnection, method: str, more: str, body: bytes | None) -> None:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        connection.request(method, self.path + more, body, headers)
        reply = connection.getresponse()
        reply.read()
        self.answers["answered" if reply.status in (200, 201) else f"{method} {reply.status}"] += 1


def started(url: str, port: int) -> Running:
    shipped = {"LATCHKEY_SHUTDOWN_DELAY_SECONDS": str(Settings().shutdown_delay_seconds)}
    words = ("--roles", "api", "--workers", "1", "--port", str(port))
    return serve(url, *words, LATCHKEY_ACCESS_LOG="false", **shipped)


def proxy(
    name: str, folder: Path, port: int, plain: int, machines: tuple[int, int], made: LocalCertificates
) -> list[str]:
    """The command of a proxy with its shipped file, in which only ports, paths and the second machine are changed.
    And nginx, which has no health checks, leaves a machine that refused a connection alone for one second, not ten."""
    both = made.cert.read_bytes() + made.key.read_bytes()
    (folder / "both.pem").write_bytes(both)
    if name == "haproxy":
        text = (
            (FILES / "haproxy.cfg")
            .read_text()
            .replace("/etc/haproxy/tls/billing.example.com.pem", f"{folder}/both.pem")
        )
        text = text.replace(":443", f"127.0.0.1:{port}").replace("bind :80", f"bind 127.0.0.1:{plain}")
        server = re.search(r"server one 127\.0\.0\.1:8443 (.*)", text)
        assert server is not None
        lines = [f"server m{one} 127.0.0.1:{one} {server[1]}" for one in machines]
        config = folder / "haproxy.cfg"
        config.write_text(text.replace(server[0], "\n    ".join(lines)))
        return ["haproxy", "-db", "-f", str(config)]
    shutil.copy(made.cert, folder / "fullchain.pem")
    shutil.copy(made.key, folder / "privkey.pem")
    text = (FILES / "nginx.conf").read_text().replace("/etc/nginx/tls", str(folder))
    text = re.sub(r"    listen \[::\].*\n", "", text)
    text = text.replace("listen 443", f"listen 127.0.0.1:{port}").replace("listen 80", f"listen 127.0.0.1:{plain}")
    text = text.replace(
        "server 127.0.0.1:8443;", " ".join(f"server 127.0.0.1:{one} fail_timeout=1s;" for one in machines)
    )
    config = folder / "nginx.conf"
    kept = f"pid {folder}/pid; error_log stderr; daemon off; worker_processes 1;\nevents {{}}\n"
    config.write_text(f"{kept}http {{\naccess_log off;\n{text}\n}}\n")
    return ["nginx", "-c", str(config)]


def storm(
    url: str, key: str, proxies: Iterable[str], folder: Path, restarts: Iterable[float]
) -> dict[str, Counter[str]]:
    """How often which answer came through each of these proxies. One machine is restarted for each of these seconds,
    which are waited afterwards: until every proxy uses it again, and longer."""
    made = ensure_certificates(folder, [ipaddress.ip_address("127.0.0.1")], real_now())
    machines = (free_port(), free_port())
    with ExitStack() as stack:
        running = [stack.enter_context(started(url, port)) for port in machines]
        for one in running:
            one.wait_for_event("ready")
        clients: dict[str, list[Client]] = {}
        for name in proxies:
            port = free_port()
            command = proxy(name, folder, port, free_port(), machines, made)
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            proxying = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(proxying.wait)
            stack.callback(proxying.terminate)
            wait_until(partial(_answers, port, made.authority), f"{name} does not answer")
            clients[name] = [Client(f"{name}{number}", port, made.authority, key) for number in range(CLIENTS)]
        everybody = list(chain.from_iterable(clients.values()))
        for client in everybody:
            client.start()
        for turn, pause in zip(cycle((0, 1)), restarts, strict=False):
            assert running[turn].terminate() == 0, running[turn].output
            running[turn] = stack.enter_context(started(url, machines[turn]))
            running[turn].wait_for_event("ready")
            time.sleep(pause)
        for client in everybody:
            client.over.set()
        for client in everybody:
            client.join(PATIENCE)
        return {name: sum((client.answers for client in its), Counter()) for name, its in clients.items()}


def _answers(port: int, authority: Path) -> bool:
    with suppress(OSError):
        return ask(f"https://127.0.0.1:{port}", "GET", "/readyz", authority=authority).status == 200
    return False


async def issue_key(url: str) -> str:
    async with Database(url) as database:
        await ensure_demo(database, real_now(), secret_key=None, public_key=None)
        issued = await create_secret_key(database, PROJECT_ID, "restarts", real_now(), rate_limit=1_000_000)
        return issued.plaintext


async def _prepared(url: str) -> str:
    await migrated(url)
    return await issue_key(url)


async def run(folder: Path, seed: int, seconds: float, figures: Counter[str]) -> None:
    proxies = [name for name in PROXIES if shutil.which(name)] or machine.skip(" or ".join(PROXIES), "Install one.")
    chances, ends = random.Random(seed), time.monotonic() + seconds

    def restarts() -> Iterator[float]:
        while time.monotonic() < ends or not figures["restarts"]:
            figures["restarts"] += 1
            yield chances.uniform(2, 5)

    server = EmbeddedServer(folder / "server", settings=UNSAFE_BUT_FAST)
    await asyncio.to_thread(server.start)
    try:
        key = await _prepared(server.url())
        answers = await asyncio.to_thread(storm, server.url(), key, proxies, folder, restarts())
    finally:
        await asyncio.to_thread(server.stop)
    figures["requests"] = sum(counted.total() for counted in answers.values())
    assert all(counted.total() == counted["answered"] > 0 for counted in answers.values()), answers
