"""A project that has closed its test store: nothing can be bought there any more, and nothing is renewed."""

from __future__ import annotations

from typing import Any

import pytest

from latchkey.domain.instants import DAY
from tests.api.client import NOW, Shop
from tests.api.doings import act, advance, count_rows, did, make_clock, move_in, show_receipt, types_told
from tests.api.management import holds, patch, refused


@pytest.fixture
async def closed(shop: Shop) -> Shop:
    """Ada subscribed and Bob bought something for ever, before it was closed."""
    await did(shop, "purchase", "ada", "pro_monthly")
    await did(shop, "purchase", "bob", "pro_lifetime")
    await show_receipt(shop, "eve", "test_1_eve")
    reply = await patch(shop, "", {"test_store": "closed"})
    assert (reply.status, reply.json()["test_store"]) == (200, "closed")
    return shop


async def test_a_receipt_is_400_7103_also_for_what_is_known(closed: Shop) -> None:
    before = await count_rows(closed)
    for who, token in (("new", "test_2_new"), ("eve", "test_1_eve"), ("thief", "test_1_eve")):
        reply = await show_receipt(closed, who, token)
        assert (reply.status, reply.json()["code"]) == (400, 7103)
        assert "closed" in reply.json()["message"]
    assert await count_rows(closed) == before
    assert await holds(closed, "eve") == {"pro"}


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("purchase", {"product_id": "team_monthly"}),
        ("store_outage", {"product_id": "team_monthly"}),
        ("renew", {}),
        ("uncancel", {}),
        ("recover_billing", {}),
        ("resume", {}),
        ("extend", {"days": 3}),
        ("change_product", {"new_product_id": "pro_yearly"}),
        ("reverse_refund", {}),
        ("issue_invoice", {}),
        ("fail_billing", {"grace_days": 3}),
        ("pause", {"resume_at_ms": NOW + 90 * DAY}),
    ],
)
async def test_an_action_of_a_secret_key_is_422(closed: Shop, action: str, fields: dict[str, Any]) -> None:
    before = await count_rows(closed)
    reply = await act(closed, action, "ada", **fields)
    refused(reply, 422, "unprocessable_entity_error", "action")
    assert "closed" in reply.json()["message"]
    assert await count_rows(closed) == before


async def test_moving_an_end_by_v1_is_422_and_refunding_is_not(closed: Shop) -> None:
    path = "/v1/subscribers/ada/subscriptions/pro_monthly"
    assert (await closed.client.post(f"{path}/defer", {"extend_by_days": 3})).status == 422
    assert (await closed.client.post(f"{path}/revoke")).status == 200
    assert await holds(closed, "ada") == set()


async def test_what_takes_access_away_is_still_done(closed: Shop) -> None:
    await did(closed, "cancel", "ada", "pro_monthly")
    await did(closed, "refund", "bob", "pro_lifetime")
    await did(closed, "expire", "eve", "pro_monthly")
    assert await holds(closed, "ada") == {"pro"}
    assert await holds(closed, "bob") == set()
    assert await holds(closed, "eve") == set()


async def test_what_was_bought_before_runs_out_and_is_not_renewed(shop: Shop) -> None:
    clock = await make_clock(shop)
    await move_in(shop, "ada", clock)
    await did(shop, "purchase", "ada", "pro_monthly")
    await advance(shop, clock, by="P1M")
    assert await types_told(shop) == ["INITIAL_PURCHASE", "RENEWAL"]
    await patch(shop, "", {"test_store": "closed"})
    assert await holds(shop, "ada") == {"pro"}
    await advance(shop, clock, by="P3M")
    assert await types_told(shop) == ["INITIAL_PURCHASE", "RENEWAL", "EXPIRATION"]
    assert await holds(shop, "ada") == set()


async def test_opened_again_it_sells_again(closed: Shop) -> None:
    assert (await patch(closed, "", {"test_store": "open"})).json()["test_store"] == "open"
    assert (await show_receipt(closed, "new", "test_2_new")).status == 200
    assert (await act(closed, "renew", "ada", "pro_monthly")).status == 200


async def test_another_project_is_not_closed_with_it(closed: Shop) -> None:
    async with closed.database.acquire() as connection:
        await connection.execute("insert into projects (id, name, created_at) values ('proj_two', 'Two', 1)")
        assert await connection.fetchval("select test_store from projects where id = 'proj_two'") == "open"
