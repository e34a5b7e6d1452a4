"""Tax and commission of a project over the API, and what they do to the next payment."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Shop

PROGRAM = {"store": "app_store", "program": "small_business", "from": "2026-01-01", "until": "2026-12-31"}
TAX = {"from": "2026-01-01", "country": "DE", "tax_rate": 0.19}


async def test_each_list_is_replaced_alone(shop: Shop) -> None:
    path = f"/v2/projects/{shop.project_id}/money"
    first = (await shop.client.get(path)).json()
    assert (first["object"], first["programs"], first["percentages"]) == ("money_settings", [], [])
    await shop.client.post(path, {"programs": [PROGRAM]})
    changed = (await shop.client.post(path, {"percentages": [TAX]})).json()
    assert changed["programs"] == [PROGRAM]
    assert changed["percentages"] == [{"store": None, "commission_rate": None, **TAX}]
    assert (await shop.client.post(path, {"programs": []})).json()["programs"] == []


async def test_percentages_count_for_the_next_payment_and_not_for_those_before(shop: Shop) -> None:
    path = f"/v2/projects/{shop.project_id}"
    buy = {"action": "purchase", "product_id": "pro_monthly"}
    await shop.client.post(f"{path}/test_store/actions", {**buy, "app_user_id": "early"})
    own = {"from": "2020-01-01", "store": "test_store", "commission_rate": 0.25, "tax_rate": 0.25}
    assert (await shop.client.post(f"{path}/money", {"percentages": [own]})).status == 200
    await shop.client.post(f"{path}/test_store/actions", {**buy, "app_user_id": "late"})
    await shop.client.post(f"{path}/test_store/actions", {"action": "refund", "app_user_id": "early"})

    async def told(user: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await shop.client.get(f"{path}/customers/{user}/events")).json()["items"]
        return items

    for event in await told("early"):
        assert (event["takehome_percentage"], "tax_percentage" in event) == (1.0, False)
    (late,) = await told("late")
    assert (late["tax_percentage"], late["commission_percentage"], late["takehome_percentage"]) == (0.2, 0.25, 0.75)


@pytest.mark.parametrize(
    "body",
    [
        {"programs": [{**PROGRAM, "store": "stripe"}]},
        {"programs": [{**PROGRAM, "program": "friends"}]},
        {"programs": [{**PROGRAM, "until": "2025-12-31"}]},
        {"programs": [{**PROGRAM, "from": "01/01/2026"}]},
        {"programs": [PROGRAM, PROGRAM]},
        {"programs": None},
        {"percentages": [{"from": "2026-01-01"}]},
        {"percentages": [{**TAX, "tax_rate": 19}]},
        {"percentages": [{**TAX, "tax_rate": -0.1}]},
        {"percentages": [{**TAX, "country": "de"}]},
        {"percentages": [{**TAX, "country": "ZZ"}]},
        {"percentages": [{**TAX, "colour": "red"}]},
        {"percentages": [TAX, TAX]},
    ],
)
async def test_what_makes_no_sense_is_refused_and_changes_nothing(shop: Shop, body: dict[str, Any]) -> None:
    path = f"/v2/projects/{shop.project_id}/money"
    refused = await shop.client.post(path, body)
    assert refused.status == 400
    assert refused.json()["type"] == "parameter_error"
    found = (await shop.client.get(path)).json()
    assert (found["programs"], found["percentages"]) == ([], [])
