from __future__ import annotations

import pytest

from tests.api.client import Shop


@pytest.mark.parametrize("more", ["", "/attributes", "/active_entitlements"])
async def test_an_unknown_customer_is_404(shop: Shop, more: str) -> None:
    reply = await shop.v2("nobody", more)
    assert reply.status == 404
    assert reply.json()["type"] == "resource_missing"
    assert reply.json()["retryable"] is False


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/v1/nothing", "/v1/subscribers/ada/nothing", "/v1/subscribers/a/b/c/d"]
)
async def test_a_path_where_nothing_lives_is_404_in_v1s_body(shop: Shop, path: str) -> None:
    reply = await shop.client.get(path)
    assert reply.status == 404
    assert set(reply.json()) == {"code", "message"}


@pytest.mark.parametrize(
    "path", ["/", "/v2", "/v2/nothing", "/v3/x", "/nothing", "/v2/projects/proj_demo/customers/ada/x", "//"]
)
async def test_a_path_where_nothing_lives_is_404_in_v2s_body(shop: Shop, path: str) -> None:
    reply = await shop.client.get(path)
    assert (reply.status, reply.json()["object"], reply.json()["type"]) == (404, "error", "resource_missing")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "TRACE", "OPTIONS", "BREW"])
async def test_a_method_that_a_read_does_not_know_is_405_and_says_which_it_does(shop: Shop, method: str) -> None:
    reply = await shop.client.request(method, "/v1/subscribers/ada")
    assert reply.status == 405
    assert {"GET", "HEAD"} <= set(reply.headers["allow"].split(", "))
    assert method not in reply.headers["allow"].split(", ")
    assert set(reply.json()) == {"code", "message"}
    reply = await shop.client.request(method, "/v2/projects/proj_demo/customers/ada/attributes")
    assert reply.status == 405
    assert reply.headers["allow"] == "GET, HEAD, POST"
    assert reply.json()["type"] == "invalid_request"
