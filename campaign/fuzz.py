"""Random requests to a running service over HTTPS; every reply is checked: `make chaos WHAT=fuzz`."""

import asyncio
import base64
import json
import re
import ssl
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import jsonschema_rs
import psutil  # type: ignore[import-untyped]  # ships no types

from campaign.requests import Requests, Sent
from latchkey.database.embedded.postgres import DATABASE, EmbeddedServer
from latchkey.database.pool import Database, connect
from latchkey.server import HEARD_OUT
from tests.cli.running import Running, serve
from tests.conftest import UNSAFE_BUT_FAST
from tests.connections import connected, migrated
from tests.databases import copy, drop
from tests.http.fixtures import opened
from tests.http.routes import BODIES, NAMES, document, settle
from tests.patience import PATIENCE
from tests.subjects.webhooks.delivery import certificates
from tests.subjects.webhooks.delivery.certificates import Certificates

CONNECTIONS = 8
# Requests that are sent at once on a connection.
PIPELINED = 8
# Requests that are no HTTP, each on a connection of its own, because many are never answered.
BROKEN = 64
# The service answers for a request that it does not understand, whatever it is about.
REFUSALS = {400, 401, 403, 404, 405, 408, 411, 413, 414, 415, 429, 431, 501, 505}
INSIDE = (
    b"Traceback", b"asyncpg", b"site-packages", b".py", b"pydantic", b"msgspec", b"starlette", b"/latchkey/",
    b"postgres:", b"postgresql:", b"select ", b"SELECT ", b"insert into", b"violates", b"syntax error at",
    b"<class ", b"<function ",
)  # fmt: skip
# Seconds with one project.
LONGEST = 30.0
# Faults of a kind are told once.
MOST_FAULTS = 40


class Reply:
    def __init__(self, status: int, headers: dict[bytes, bytes], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @cached_property
    def json(self) -> Any:
        return json.loads(self.body)


class Checks:
    """What each operation documents, and what was found that is not so."""

    def __init__(self, described: dict[str, Any], key: str, figures: Counter[str]) -> None:
        """`key`: that of most requests."""
        self.faults: dict[tuple[str, ...], str] = {}
        self.figures = figures
        self._with_key = b"\r\nAuthorization: Bearer %s\r\n" % key.encode()
        # The key is gone.
        self.is_locked_out = False
        self._components = described["components"]
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    def check(self, sent: Sent, reply: Reply) -> None:
        self.figures["requests"] += 1
        self.figures[f"{reply.status // 100}xx"] += 1
        if reply.status == 401 and not sent.raw and sent.operation and self._with_key in sent.data:
            self.is_locked_out = True
        if wrong := self._wrong(sent, reply):
            if reply.status >= 500 and reply.status != 503:
                self.figures["undocumented 5xx"] += 1
            self.fault(sent, wrong, f"{reply.status} {reply.headers} {reply.body[:2_000]!r}")

    def fault(self, sent: Sent, wrong: str, told: str) -> None:
        where = f"{sent.operation.method} {sent.operation.path}" if sent.operation else sent.method
        key = (where, wrong.partition(":")[0])
        if key not in self.faults and len(self.faults) < MOST_FAULTS:
            self.faults[key] = f"{where}: {wrong}\n  sent: {sent.data[:4_000]!r}\n  reply: {told}"

    def _wrong(self, sent: Sent, reply: Reply) -> str:
        status, kind = reply.status, reply.headers.get(b"content-type", b"")
        if status >= 500 and status not in (503, *(REFUSALS if sent.raw else ())):
            return f"status {status}"
        for word in INSIDE:
            if word in reply.body:
                return f"it shows the inside: {word!r}"
        if sent.raw:
            return ""
        if b"x-request-id" not in reply.headers:
            return "no request id"
        documented = sent.operation.about["responses"] if sent.operation else {}
        if sent.operation is None:
            if status >= 400 and status not in REFUSALS | {422, 409, 503}:
                return f"status {status} without an operation"
        elif str(status) not in documented and status not in {405, 431}:
            return f"status {status} is not documented"
        if sent.method == "HEAD" or (status < 400 and kind != b"application/json"):
            return ""
        if kind != b"application/json":
            return f"an error that is {kind!r}"
        try:
            value = reply.json
        except ValueError:
            return "a body that is no JSON"
        if status >= 400 and not ({"code", "message"} <= value.keys() or {"type", "message"} <= value.keys()):
            return "an error of another form"
        if b"\r\nLatchkey-Shape:" in sent.data:
            # The vendor's shape is cut from the documented one.
            return ""
        if sent.operation and (validator := self._validator(documented.get(str(status), {}))):
            for error in islice(validator.iter_errors(value), 1):
                return f"not as documented: {status} {list(error.instance_path)} {error.message[:300]}"
        return ""

    def _validator(self, response: dict[str, Any]) -> jsonschema_rs.Validator | None:
        schema = response.get("content", {}).get("application/json", {}).get("schema")
        if schema is None:
            return None
        # Most responses share a few schemas, and each takes long to compile.
        key = json.dumps(schema)
        if key not in self._validators:
            whole = {**schema, "components": self._components}
            self._validators[key] = jsonschema_rs.Draft202012Validator(whole)
        return self._validators[key]


class Connection:
    def __init__(self, port: int, authority: Path, checks: Checks) -> None:
        self._port, self._checks = port, checks
        self._trusted = ssl.create_default_context(cafile=authority)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, batch: list[Sent]) -> list[str]:
        """Send all of them at once, and check the replies. Gives ids that are in them. One that is no HTTP comes alone,
        and ends the connection."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("localhost", self._port, ssl=self._trusted)
        reader, writer = self._streams
        ids: list[str] = []
        for number, sent in enumerate(batch):
            try:
                async with asyncio.timeout(2 if sent.raw else PATIENCE):
                    if number == 0:
                        writer.write(b"".join(one.data for one in batch))
                    reply = await _read(reader, sent.method)
            except (OSError, EOFError, ValueError, TimeoutError) as error:
                if not sent.raw:
                    told = [one.data[:300] for one in batch]
                    self._checks.fault(sent, "no reply", f"{error!r}; {number + 1}. of {told}")
                else:
                    self._checks.figures["not answered"] += 1
                self.close()
                return ids
            self._checks.check(sent, reply)
            if reply.status in (200, 201):
                ids += [found.decode() for found in re.findall(rb'"id":"([^"\\]{1,60})"', reply.body[:2_000])]
            if sent.raw or reply.headers.get(b"connection") == b"close":
                self.close()
                # Of a body that is far too large the rest is not read.
                if number + 1 < len(batch) and not sent.raw and len(sent.data) <= HEARD_OUT:
                    self._checks.fault(sent, "the connection was closed", repr(reply.headers))
                return ids
        return ids

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


async def _read(reader: asyncio.StreamReader, method: str) -> Reply:
    head = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    status = int(head[0].split(b" ")[1])
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in head[1:] if line)}
    body = b""
    if method == "HEAD" or status in (204, 304):
        pass
    elif headers.get(b"transfer-encoding") == b"chunked":
        while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
    else:
        body = await reader.readexactly(int(headers.get(b"content-length", b"0")))
    return Reply(status, headers, body)


async def run(folder: Path, seed: int, seconds: float, figures: Counter[str]) -> None:
    """One service after the other, each with a project of its own: random requests soon delete what is in one, and in
    the end its key, after which every request would be refused."""
    server = EmbeddedServer(folder / "server", settings=UNSAFE_BUT_FAST)
    await asyncio.to_thread(server.start)
    try:
        certs = certificates.make(folder / "certificates")
        await migrated(server.url())
        async with Database(server.url()) as database, opened(database) as shop:
            await database.pool.execute("update api_keys set rate_limit = 1000000000 where rate_limit is not null")
            names, keys = NAMES | await settle(shop), (shop.secret, shop.public)
        described, ends, number = document(), time.monotonic() + seconds, 0
        checks = Checks(described, keys[0], figures)
        figures["undocumented 5xx"] = 0
        async with connected(connect(server.url("postgres"))) as administration:
            while time.monotonic() < ends:
                number += 1
                name = f"project_{number}"
                await copy(administration, name, DATABASE)
                drawn = partial(
                    Requests, f"{seed} {number}", described=described, bodies=BODIES, names=names, keys=keys
                )
                await _one_project(server.url(name), certs, drawn, checks, ends)
                await drop(administration, name)
        figures["projects"] = number
        assert not checks.faults, "\n".join(checks.faults.values())
    finally:
        await asyncio.to_thread(server.stop)


async def _one_project(
    database_url: str, certs: Certificates, drawn: Callable[..., Requests], checks: Checks, ends: float
) -> None:
    settings = {
        "LATCHKEY_BEHIND_PROXY": "false",
        # As `opened` has it, which sealed what is in the database.
        "LATCHKEY_SECRET_KEY": base64.b64encode(bytes(32)).decode(),
        "LATCHKEY_TLS_CERT": str(certs.good[0]),
        "LATCHKEY_TLS_KEY": str(certs.good[1]),
        "LATCHKEY_ADDRESS_REQUESTS_PER_MINUTE": "0",
        "LATCHKEY_ACCESS_LOG": "false",
        "LATCHKEY_KEYS_CREATE_PROJECTS": "true",
    }
    words = ("--roles", "api", "--workers", "1")
    with await asyncio.to_thread(serve, database_url, *words, **settings) as service:
        port = (await asyncio.to_thread(service.wait_for_event, "ready"))["port"]
        processes, few = _processes(service), asyncio.Semaphore(BROKEN)
        ends = min(ends, time.monotonic() + LONGEST)
        checks.is_locked_out = False

        async def alone(sent: Sent) -> None:
            async with few:
                await Connection(port, certs.authority, checks).ask([sent])

        async def client(number: int) -> None:
            connection = Connection(port, certs.authority, checks)
            requests = drawn(number, host=f"localhost:{port}")
            async with asyncio.TaskGroup() as broken:
                while time.monotonic() < ends and not checks.is_locked_out:
                    batch = [requests.next() for _ in range(PIPELINED)]
                    for sent in batch:
                        if sent.raw:
                            broken.create_task(alone(sent))
                    requests.saw(await connection.ask([sent for sent in batch if not sent.raw]))
            connection.close()

        await asyncio.gather(*(client(number) for number in range(CONNECTIONS)))
        assert _processes(service) == processes, f"a process ended: {service.output[-3_000:]}"
        assert await asyncio.to_thread(service.terminate) == 0, service.output[-3_000:]
        logged = [line for line in service.lines if _is_fault(line)]
    assert not logged, "".join(logged[:20])


def _processes(service: Running) -> set[int]:
    return {one.pid for one in psutil.Process(service.process.pid).children()}


def _is_fault(line: str) -> bool:
    with suppress(ValueError):
        return bool(json.loads(line).get("level") in {"error", "critical"})
    return "Traceback" in line or "ERROR" in line
