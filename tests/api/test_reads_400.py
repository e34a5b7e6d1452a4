"""Reads with invalid ids and invalid parameters."""

from __future__ import annotations

import pytest

from tests.api.client import Shop


@pytest.mark.parametrize(
    "id", ["null", "none", "NaN", "%5Bobject%20Object%5D", "0", "-1", "guest", "x" * 101, "%7B%7D"]
)
async def test_a_blocked_id_is_refused_in_both_bodies(shop: Shop, id: str) -> None:
    reply = await shop.v1(id)
    assert (reply.status, reply.json()["code"]) == (400, 7256)
    assert set(reply.json()) == {"code", "message"}
    reply = await shop.v2(id)
    assert reply.status == 400
    error = reply.json()
    assert (error["object"], error["type"], error["param"]) == ("error", "parameter_error", "customer_id")
    assert error["retryable"] is False


async def test_an_empty_id_has_its_own_code(shop: Shop) -> None:
    for path in ("/v1/subscribers/", "/v1/subscribers/%20"):
        reply = await shop.client.get(path)
        assert (reply.status, reply.json()["code"]) == (400, 7220)


@pytest.mark.parametrize("id", ["a%2Fb", "a%2fb", "a%00b", "%FF", "%C3%28", "%ED%A0%80", "100%", "%zz", "%C0%AF"])
async def test_an_id_that_hides_a_slash_or_a_nul_or_is_no_utf8_is_refused(shop: Shop, id: str) -> None:
    reply = await shop.v1(id)
    assert (reply.status, reply.json()["code"]) == (400, 7256)
    for more in ("", "/attributes"):
        reply = await shop.v2(id, more)
        assert (reply.status, reply.json()["type"]) == (400, "parameter_error")


async def test_a_slash_that_is_encoded_twice_is_an_ordinary_id(shop: Shop) -> None:
    assert (await shop.v2("a%252Fb")).status == 404


@pytest.mark.parametrize("limit", ["0", "-1", "abc", "", "1.5", "1e1"])
async def test_a_limit_that_is_no_number_from_1_on_is_refused_by_name(shop: Shop, limit: str) -> None:
    await shop.note("ada", plan="x")
    reply = await shop.v2("ada", f"/attributes?limit={limit}")
    assert reply.status == 400
    assert (reply.json()["type"], reply.json()["param"]) == ("parameter_error", "limit")


@pytest.mark.parametrize("cursor", ["%00", "a%00b", "x" * 501])
async def test_a_cursor_that_no_page_gave_out_is_refused(shop: Shop, cursor: str) -> None:
    await shop.note("ada", plan="x")
    reply = await shop.v2("ada", f"/attributes?starting_after={cursor}")
    assert (reply.status, reply.json()["param"]) == (400, "starting_after")


async def test_a_bad_id_with_a_bad_key_is_first_of_all_a_bad_key(shop: Shop) -> None:
    assert (await shop.v1("null", key="sk_wrong")).status == 401
    assert (await shop.v2("null", key="sk_wrong")).status == 401
