"""Test clocks that cannot be made, found or moved."""

from __future__ import annotations

from typing import Any

import pytest

from latchkey.domain.instants import EARLIEST, LATEST
from tests.api.client import NOW, Shop
from tests.api.doings import count_rows, make_clock
from tests.api.management import delete, get, post, refused


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": 1}, "name"),
        ({"name": "x", "now_ms": "now"}, "now_ms"),
        ({"name": "x", "now_ms": EARLIEST - 1}, "now_ms"),
        ({"name": "x", "now_ms": LATEST + 1}, "now_ms"),
        ({"name": "x", "speed": 2}, "speed"),
    ],
)
async def test_a_clock_that_cannot_be_is_400(steady_shop: Shop, body: dict[str, Any], param: str) -> None:
    before = await count_rows(steady_shop)
    refused(await post(steady_shop, "test_clocks", body), 400, "parameter_error", param)
    assert await count_rows(steady_shop) == before


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({}, 400, "by"),
        ({"by": "P1D", "to_ms": NOW + 1}, 400, "by"),
        ({"by": None, "to_ms": None}, 400, "by"),
        ({"by": ""}, 400, "by"),
        ({"by": "P"}, 400, "by"),
        ({"by": "PT"}, 400, "by"),
        ({"by": "P0D"}, 400, "by"),
        ({"by": "-P1D"}, 400, "by"),
        ({"by": "P1.5D"}, 400, "by"),
        ({"by": "1 month"}, 400, "by"),
        ({"by": 1}, 400, "by"),
        ({"by": "P1D" + "1" * 60}, 400, "by"),
        ({"by": "P9999Y"}, 400, "by"),
        ({"by": "P9999Y9999M9999W9999DT99999H99999M999999S"}, 400, "by"),
        ({"by": "P99Y999M999W9999D"}, 422, "by"),
        ({"by": "P99Y999M"}, 422, "by"),
        ({"to_ms": NOW - 1}, 422, "to_ms"),
        ({"to_ms": EARLIEST}, 422, "to_ms"),
        ({"to_ms": LATEST + 1}, 400, "to_ms"),
        ({"to_ms": "tomorrow"}, 400, "to_ms"),
        ({"to_ms": NOW + 0.5}, 400, "to_ms"),
        ({"by": "P1D", "twice": True}, 400, "twice"),
    ],
)
async def test_a_move_that_cannot_be_is_refused_and_the_clock_stands(
    steady_shop: Shop, body: dict[str, Any], status: int, param: str
) -> None:
    clock = await make_clock(steady_shop)
    kind = "parameter_error" if status == 400 else "unprocessable_entity_error"
    refused(await post(steady_shop, f"test_clocks/{clock}/advance", body), status, kind, param)
    assert (await get(steady_shop, f"test_clocks/{clock}")).json()["now_ms"] == NOW


async def test_a_clock_that_does_not_exist_is_404(steady_shop: Shop) -> None:
    for reply in (
        await get(steady_shop, "test_clocks/clk_none"),
        await post(steady_shop, "test_clocks/clk_none/advance", {"by": "P1D"}),
        await delete(steady_shop, "test_clocks/clk_none"),
    ):
        refused(reply, 404, "resource_missing", "test_clock_id")
    refused(await get(steady_shop, "test_clocks?starting_after=clk_none"), 404, "resource_missing", "starting_after")


async def test_time_can_reach_the_last_moment_and_people_live_there(steady_shop: Shop) -> None:
    clock = await make_clock(steady_shop, LATEST - 1)
    body = {"id": "last", "test_clock_id": clock}
    assert (await post(steady_shop, "customers", body)).status == 201
    action = {"action": "purchase", "app_user_id": "last", "product_id": "pro_yearly"}
    assert (await post(steady_shop, "test_store/actions", action)).status == 200
    assert (await post(steady_shop, f"test_clocks/{clock}/advance", {"to_ms": LATEST})).status == 200
    assert (await steady_shop.v1("last")).status == 200
