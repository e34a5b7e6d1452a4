import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from latchkey.stores.credential_form import allowed_address
from latchkey.stores.errors import NoAnswer, StoreDown
from latchkey.stores.http import StoreHttp, StoreResponse, retry_after
from tests.stores.loopback import Handler, Reply, Request, serving

NOW = 1_790_000_000_000


@asynccontextmanager
async def http(handler: Handler, **options: Any) -> AsyncIterator[tuple[StoreHttp, str]]:
    client = StoreHttp("Apple", lambda: NOW, **options)
    try:
        async with serving(handler) as address:
            yield client, address
    finally:
        await client.close()


def always(reply: Reply) -> Handler:
    async def handler(_: Request) -> Reply:
        return reply

    return handler


async def test_a_request_carries_headers_query_and_json_and_the_answer_comes_back() -> None:
    asked: list[Request] = []

    async def handler(request: Request) -> Reply:
        asked.append(request)
        return Reply.json({"ok": True}, headers={"X-Extra": "yes"})

    async with http(handler) as (client, address):
        sent: Any = {"json": {"n": 1}, "headers": {"Authorization": "Bearer x"}, "query": {"page": "a b&c"}}
        answer = await client.request("POST", f"{address}/a/b", **sent)
    assert answer.status == 200
    assert answer.headers["x-extra"] == "yes"
    assert answer.json(dict[str, bool], "Apple") == {"ok": True}
    assert (asked[0].method, asked[0].path, asked[0].query) == ("POST", "/a/b", {"page": ["a b&c"]})
    assert asked[0].headers["authorization"] == "Bearer x"
    assert asked[0].json() == {"n": 1}


async def test_a_4xx_is_an_answer_for_the_adapter_to_judge() -> None:
    async with http(always(Reply.json({"errorCode": 4040010}, status=404))) as (client, address):
        assert (await client.request("GET", address)).status == 404


@pytest.mark.parametrize(
    ("reply", "says", "wait", "kind"),
    [
        (Reply(500), "answered 500", None, NoAnswer),
        (Reply(503, headers={"Retry-After": "7"}), "answered 503", 7_000, NoAnswer),
        (Reply(429, headers={"Retry-After": "30"}), "429", 30_000, NoAnswer),
        (Reply(429, headers={"Retry-After": str(NOW + 4_500)}), "429", 4_500, NoAnswer),
        (Reply(408), "answered 408", None, StoreDown),
        (Reply(302, headers={"Location": "http://127.0.0.1:1/"}), "redirect", None, StoreDown),
        (Reply(200, b"x" * 2_000), "more than 1000 bytes", None, StoreDown),
        (Reply(200, b"x" * 500, cut_at=200), "connection failed", None, NoAnswer),
        (Reply(200, cut_at=5), "connection failed", None, NoAnswer),
    ],
)
async def test_a_store_that_is_down_is_told_from_an_answer_that_nobody_can_use(
    reply: Reply, says: str, wait: int | None, kind: type[StoreDown]
) -> None:
    async with http(always(reply), largest_answer=1000) as (client, address):
        with pytest.raises(StoreDown, match=says) as raised:
            await client.request("GET", address + "/secret-token")
    assert (type(raised.value), raised.value.retry_after_ms) == (kind, wait)
    assert "secret-token" not in raised.value.message


async def test_nobody_there_is_a_store_that_is_down() -> None:
    async with serving(always(Reply())) as address:
        pass
    client = StoreHttp("Apple", lambda: NOW)
    with pytest.raises(StoreDown, match="could not be reached"):
        await client.request("GET", address)
    await client.close()


async def test_a_store_that_never_answers_is_down_after_the_timeout() -> None:
    async def handler(_: Request) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    async with http(handler, timeout=timedelta(milliseconds=50)) as (client, address):
        with pytest.raises(StoreDown, match=r"in time|did not answer within"):
            await client.request("GET", address)


@pytest.mark.parametrize("body", [b"<html>", b"\xff\xfe", b"[" * 5_000, b'{"ok": 1'])
def test_a_body_of_another_form_is_a_store_in_trouble(body: bytes) -> None:
    with pytest.raises(StoreDown, match="unexpected form"):
        StoreResponse(200, {}, body).json(dict[str, bool], "Apple")


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        (None, None),
        ("soon", None),
        ("5", 5_000),
        (str(NOW + 1), 1),
        (str(NOW - 1), 0),
        ("9" * 15, 86_400_000),
        ("9" * 9, 86_400_000),
        ("Mon, 21 Sep 2026 14:13:30 GMT", 10_000),
    ],
)
def test_retry_after_in_its_three_forms(value: str | None, wait: int | None) -> None:
    assert retry_after(value, NOW) == wait


ALLOWED = frozenset({"stores.example.com", "127.0.0.1", "localhost:9000"})


@pytest.mark.parametrize(
    "given",
    [
        "https://stores.example.com",
        "https://stores.example.com:8443/apple/",
        "http://127.0.0.1:4000",
        "http://localhost:9000",
        "https://STORES.example.com",
    ],
)
def test_an_address_at_an_allowed_host_is_taken(given: str) -> None:
    assert allowed_address("api_base_url", given, ALLOWED) == given.rstrip("/")


@pytest.mark.parametrize(
    "given",
    [
        None,
        5,
        "",
        "stores.example.com",
        "http://stores.example.com",
        "https://evil.example",
        "https://stores.example.com.evil.example",
        "https://stores.example.com@evil.example",
        "https://user:pass@stores.example.com",
        "https://stores.example.com?x=1",
        "https://stores.example.com#x",
        "https://evil.example\\@stores.example.com",
        "https://stores.example.com\n.evil.example",
        "http://localhost:9001",
        "http://127.0.0.1.nip.example",
        "https://[::1",
        "https://stores.example.com:99999",
        "ftp://stores.example.com",
        "https://stores.example.com/" + "a" * 600,
    ],
)
def test_an_address_elsewhere_is_refused_with_the_name_of_its_field(given: object) -> None:
    with pytest.raises(ValueError, match=r"^api_base_url"):
        allowed_address("api_base_url", given, ALLOWED)
