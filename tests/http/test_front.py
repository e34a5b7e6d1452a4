"""What every reply has, whichever part of the service answered."""

import asyncio
import re
import sys
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest
import structlog
from msgspec import json

from latchkey import logs
from latchkey.database.errors import CollisionError, OutageError, StatementRefusedError
from latchkey.logs import LogStream
from latchkey.process import http_application as application
from latchkey.settings import Settings
from tests.http.client import APP, Client, Clock, Shop

V1 = "/v1/subscribers/ada"
V2 = "/v2/projects/proj_demo/customers/ada"
EVERYWHERE = [V1, V2, f"{V2}/attributes", "/nothing", "/v1/%FF", "/healthz", "/metrics", "/openapi.json", "/docs"]


@pytest.mark.parametrize("path", EVERYWHERE)
async def test_every_reply_has_a_request_id_of_its_own_and_the_security_headers(shop: Shop, path: str) -> None:
    first, second = await shop.client.get(path), await shop.client.get(path)
    assert re.fullmatch(r"[0-9a-f]{24}", first.headers["x-request-id"])
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert first.headers["x-content-type-options"] == "nosniff"
    assert first.headers["cache-control"] == "no-store"
    assert first.headers["referrer-policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in first.headers["content-security-policy"]


async def test_a_sane_request_id_of_the_callers_is_kept_and_an_odd_one_is_replaced(shop: Shop) -> None:
    for path in (V1, "/healthz"):
        reply = await shop.client.get(path, headers={"x-request-id": "trace-1.a_B"})
        assert reply.headers["x-request-id"] == "trace-1.a_B"
        for odd in ("", "a b", "x" * 65, "a\nb", "ü"):
            reply = await shop.client.get(path, headers={"x-request-id": odd})
            assert reply.headers["x-request-id"] != odd


LEFT = [("POST", f"{V2}/attributes"), ("POST", f"{V1}/attributes"), ("DELETE", V1), ("DELETE", V2)]


@pytest.mark.parametrize(("method", "path"), LEFT)
async def test_a_client_that_leaves_amid_its_body_is_no_fault_of_the_service(
    shop: Shop, method: str, path: str
) -> None:
    await shop.note("ada", plan="x")
    started: list[int] = []

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        started.append(message.get("status", 0))

    headers = [(b"authorization", f"Bearer {shop.secret}".encode()), (b"content-length", b"9")]
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
    with structlog.testing.capture_logs() as lines:
        await shop.client.app({**scope, "headers": headers}, receive, send)
    assert started[0] == 400
    assert [line for line in lines if line["log_level"] == "error"] == []


async def test_a_browser_may_read_v1_from_anywhere_and_v2_from_nowhere(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    browser = {"origin": "https://shop.example"}
    for path in (V1, "/v1/nothing", "/v1/%FF"):
        assert (await shop.client.get(path, headers=browser)).headers["access-control-allow-origin"] == "*"
    for path, headers in ((V2, browser), (V1, {})):
        assert "access-control-allow-origin" not in (await shop.client.get(path, headers=headers)).headers


async def test_whatever_answers_get_answers_head(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    for path in (V1, V2, f"{V2}/attributes", "/healthz", "/nothing"):
        full, head = await shop.client.get(path), await shop.client.request("HEAD", path)
        assert (head.status, head.body) == (full.status, b"")
        assert head.headers["content-length"] == full.headers["content-length"]


async def test_the_log_has_the_request_but_never_the_key_nor_the_users_id(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_json_stream", None)
    with structlog.testing.capture_logs() as lines:
        await shop.client.get(V1.replace("ada", "margot"), headers={"x-request-id": "mine"})
        await shop.client.get(f"{V2}/attributes?starting_after=x".replace("ada", "margot"))
        await shop.client.get("/nothing/at/all")
        await asyncio.sleep(0)
    requests = [line for line in lines if line["event"] == "request"]
    assert [(line["route"], line["status"]) for line in requests] == [
        ("/v1/subscribers/{app_user_id}", 201),
        ("/v2/projects/{project_id}/customers/{customer_id}/attributes", 200),
        ("unmatched", 404),
    ]
    assert requests[0]["request_id"] == "mine"
    assert requests[0]["key_id"].startswith("key_")
    assert requests[0]["ms"] >= 0
    assert shop.secret not in str(lines)
    assert "margot" not in str(lines)


async def test_as_json_requests_that_end_together_are_written_together(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(logs, "_json_stream", LogStream(sys.stderr))
    await asyncio.gather(*(shop.v1(f"user{n}") for n in range(3)))
    await asyncio.sleep(0)
    lines = [json.decode(line) for line in capfdbinary.readouterr().err.splitlines()]
    assert len(lines) == 3
    for line in lines:
        names = "request_id method route status ms bytes key_id project_id address event level timestamp"
        assert set(line) == set(names.split())
        assert (line["event"], line["level"], line["status"]) == ("request", "info", 201)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["timestamp"])


async def test_the_log_has_the_address_of_a_server_and_only_the_network_of_a_phone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(logs, "_json_stream", LogStream(sys.stderr))
    shop.client.address = "203.0.113.77"
    server, phone, unknown = (
        await shop.v1("ada"), await shop.client.get(V1, key=APP), await shop.client.get(V1, key="sk_no")
    )  # fmt: skip
    await asyncio.sleep(0)
    lines = [json.decode(line) for line in capfdbinary.readouterr().err.splitlines()]
    assert [line["address"] for line in lines] == ["203.0.113.77", "203.0.113.0/24", "203.0.113.0/24"]
    assert [line["bytes"] for line in lines] == [len(one.body) for one in (server, phone, unknown)]
    assert [line["project_id"] for line in lines] == ["proj_demo", "proj_demo", None]


async def test_of_requests_that_succeeded_only_some_are_logged_if_that_is_set(
    shop: Shop, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_json_stream", LogStream(sys.stderr))

    async def logged(**settings: Any) -> list[int]:
        app = application.create_application(shop.database, Settings(secret_key=bytes(32), **settings), shop.clock)
        client = Client(app, shop.secret)
        for path in ("/healthz",) * 7 + ("/nothing", "/nothing"):
            await client.get(path)
        await asyncio.sleep(0)
        return [json.decode(line)["status"] for line in capfdbinary.readouterr().err.splitlines()]

    assert await logged(access_log_one_in=3) == [200, 200, 200, 404, 404]
    assert await logged(access_log=False) == []


async def test_a_quiet_log_has_no_requests(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(logs, "_json_stream", LogStream(sys.stderr))
    monkeypatch.setattr(logs, "_writes_info", False)
    await shop.v1("ada")
    await asyncio.sleep(0)
    assert capfdbinary.readouterr().err == b""


class Broken:
    """A pool that fails in a given way."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def acquire(self, **_: Any) -> Any:
        raise self.error

    at_hand = acquire


FAULTS: list[tuple[Exception, int]] = [
    (RuntimeError("the password is hunter2"), 500),
    (KeyError("secret"), 500),
    (asyncpg.SyntaxOrAccessError("select hunter2"), 500),
    (asyncpg.ConnectionDoesNotExistError("hunter2"), 503),
    (ConnectionRefusedError("hunter2"), 503),
    (asyncpg.QueryCanceledError("hunter2"), 503),
    (asyncpg.DiskFullError("hunter2"), 503),
    (asyncpg.PostgresIOError("hunter2"), 503),
    (asyncpg.ReadOnlySQLTransactionError("hunter2"), 503),
    (asyncpg.InternalClientError("hunter2"), 503),
    (OutageError("hunter2"), 503),
    (CollisionError("hunter2"), 503),
    (asyncpg.DeadlockDetectedError("hunter2"), 503),
    (asyncpg.SerializationError("hunter2"), 503),
    (StatementRefusedError("hunter2"), 500),
]


@pytest.mark.parametrize("path", [V1, V2, f"{V2}/attributes"])
async def test_a_fault_of_ours_shows_no_detail_but_a_request_id_that_the_log_has(path: str) -> None:
    database: Any = Broken(FAULTS[0][0])
    app = application.create_application(database, Settings(secret_key=bytes(32)), Clock())
    for error, status in FAULTS:
        database.error = error
        with structlog.testing.capture_logs() as lines:
            reply = await Client(app, "sk_any").get(path)
        assert reply.status == status, error
        assert b"hunter2" not in reply.body
        assert b"secret" not in reply.body
        assert reply.headers["x-request-id"] in reply.json()["message"]
        [failure] = [line for line in lines if line["event"] in {"request failed", "request refused"}]
        assert failure["request_id"] == reply.headers["x-request-id"]
        # In an outage every request is refused, and a traceback for each would fill the disk.
        assert failure.get("exc_info") is (error if status == 500 else None)
        assert failure.get("error") == (f"{type(error).__name__}: {error}" if status == 503 else None)
        if path == V1:
            assert (set(reply.json()), reply.json()["code"]) == ({"code", "message"}, 7110)
        else:
            assert (reply.json()["type"], reply.json()["retryable"]) == ("server_error", True)


@pytest.fixture
def log_on_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stderr", full)
        logs.configure("info", "json")
        yield


@pytest.mark.usefixtures("log_on_a_full_disk")
@pytest.mark.parametrize("path", [V1, V2, f"{V2}/attributes"])
async def test_a_fault_keeps_its_documented_body_when_nothing_can_be_logged(path: str) -> None:
    database: Any = Broken(RuntimeError("hunter2"))
    client = Client(application.create_application(database, Settings(secret_key=bytes(32)), Clock()), "sk_any")
    for _ in range(20):
        reply = await client.get(path)
        assert reply.status == 500
        assert reply.headers["x-request-id"] in reply.json()["message"]
