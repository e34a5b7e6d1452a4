"""Tax and commission of a project over the API, and what they do to the next payment."""

from typing import Any

import pytest

from latchkey.domain.instants import to_iso
from latchkey.subjects.money.usecases import take
from tests.http.client import NOW, Shop

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


async def test_a_test_purchase_may_be_made_abroad_and_keeps_its_rate(shop: Shop) -> None:
    path = f"/v2/projects/{shop.project_id}"
    day = to_iso(NOW)[:10]
    await take(shop.database, f"date,currency,usd\n{day},JPY,0.0065\n", "rates.csv", NOW)
    buy = {"action": "purchase", "app_user_id": "hana", "product_id": "pro_monthly", "country": "JP", "currency": "JPY"}
    assert (await shop.client.post(f"{path}/test_store/actions", buy)).status == 200
    await take(shop.database, f"date,currency,usd\n{day},JPY,0.5\n", "rates.csv", NOW, replace=True)
    refund = {"action": "refund", "app_user_id": "hana"}
    assert (await shop.client.post(f"{path}/test_store/actions", refund)).status == 200
    events = (await shop.client.get(f"{path}/customers/hana/events")).json()["items"]
    assert {one["type"] for one in events} == {"INITIAL_PURCHASE", "REFUND"}
    for event in events:
        assert (event["price"], event["price_in_purchased_currency"], event["currency"]) == (0.064935, 9.99, "JPY")
        assert event["exchange_rate"] == {"usd": "0.0065", "date": day}
        assert event["country_code"] == "JP"
