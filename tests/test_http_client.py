"""The adapter around the HTTP library, against responses that the library builds itself."""

import asyncio
import sys
import time

import pytest
from pyreqwest.middleware import Next
from pyreqwest.request import Request
from pyreqwest.response import Response, ResponseBuilder

from latchkey import http_client
from latchkey.http_client import EXIT_PAUSE, HttpClient, HttpError, causes_of, header_pairs

URL = "https://service.test/"


class Echo:
    """Answers with this body, and keeps the request."""

    def __init__(self, body: bytes = b"", status: int = 200) -> None:
        self.body = body
        self.status = status

    async def __call__(self, request: Request, _: Next) -> Response:
        self.request = request
        body = request.body.copy_bytes() if request.body is not None else None
        self.sent = bytes(body) if body is not None else None
        builder = ResponseBuilder().status(self.status).body_bytes(self.body)
        return await builder.header("Set-Cookie", "a=1").header("Set-Cookie", "b=2").header("X-One", "1").build()


async def test_a_whole_response_has_status_body_and_headers() -> None:
    echo = Echo(b"body", 418)
    async with HttpClient(middleware=echo) as http:
        response = await http.ask("PUT", URL, headers={"X-Mine": "1"}, authorization="Bearer secret", body=b"sent")
    assert (response.status, response.body, response.header("x-one"), response.header("x-two")) == (
        418,
        b"body",
        "1",
        None,
    )
    assert sorted(response.headers()) == [("set-cookie", "a=1"), ("set-cookie", "b=2"), ("x-one", "1")]
    assert (echo.request.method, str(echo.request.url), echo.sent) == ("PUT", URL, b"sent")
    assert (echo.request.headers["x-mine"], echo.request.headers["authorization"]) == ("1", "Bearer secret")


async def test_a_header_that_is_not_text_is_left_out() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nx-bad: \xff\r\nX-One: 1\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server, HttpClient(https_only=False) as http:
        response = await http.ask("GET", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    assert (response.body, response.header("x-bad"), response.header("x-one")) == (b"ok", None, "1")
    assert {name for name, _ in response.headers()} == {"x-one", "connection", "content-length"}


async def test_a_key_is_not_in_what_the_library_prints() -> None:
    echo = Echo()
    async with HttpClient(middleware=echo) as http:
        await http.ask("GET", URL, authorization="Bearer hunter2")
    assert "hunter2" not in f"{echo.request!r} {echo.request.headers!r}"


@pytest.mark.parametrize(("size", "whole"), [(0, True), (10, True), (11, False), (100_000, False)])
async def test_a_response_that_is_too_large_is_told_by_its_length(size: int, whole: bool) -> None:
    async with HttpClient(middleware=Echo(b"x" * size)) as http:
        response = await http.ask("GET", URL, most_bytes=10)
    assert (len(response.body) <= 10) is whole
    assert not whole or response.body == b"x" * size


async def test_a_streamed_response_is_there_before_its_body() -> None:
    async with HttpClient(middleware=Echo(b"body", 503)) as http, http.stream("GET", URL) as response:
        assert (response.status, response.get_header("x-one")) == (503, "1")
        assert ("set-cookie", "b=2") in header_pairs(response)
        chunk = await response.body_reader.read_chunk()
        assert chunk is not None
        assert bytes(chunk) == b"body"
        assert await response.body_reader.read_chunk() is None


async def test_plain_http_is_refused_unless_asked_for() -> None:
    async with HttpClient() as http:
        with pytest.raises(HttpError):
            await http.ask("GET", "http://127.0.0.1:1/")
    async with HttpClient(https_only=False) as http:
        with pytest.raises(HttpError) as refused:
            await http.ask("GET", "http://127.0.0.1:1/")
    assert any("refused" in cause for cause in causes_of(refused.value))


@pytest.mark.parametrize(("error", "causes"), [(ValueError("why"), ["why"]), (ValueError(), [])])
def test_an_error_of_somebody_else_is_its_own_cause(error: Exception, causes: list[str]) -> None:
    assert causes_of(error) == causes


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python 3.14 lets foreign threads hang instead of aborting")
def test_a_process_that_made_a_client_pauses_once_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the library's thread can hold Python's lock when the interpreter ends, which aborts the process."""
    registered: list[tuple[object, ...]] = []
    monkeypatch.setattr("atexit.register", lambda *given: registered.append(given))
    http_client._pause_at_exit.cache_clear()
    HttpClient()
    HttpClient()
    assert registered == [(time.sleep, EXIT_PAUSE)]
