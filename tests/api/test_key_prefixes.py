"""Every store has apps, and every app a key with the prefix that its SDK expects."""

from __future__ import annotations

import pytest

from tests.api.client import Shop

APPS = "/v2/projects/proj_demo/apps"


@pytest.mark.parametrize(
    ("store", "prefix"),
    [
        ("app_store", "appl_"),
        ("mac_app_store", "mac_"),
        ("play_store", "goog_"),
        ("amazon", "amzn_"),
        ("galaxy", "galx_"),
        ("stripe", "strp_"),
        ("rc_billing", "rcb_"),
        ("paddle", "pdl_"),
        ("test_store", "test_"),
    ],
)
async def test_an_app_in_each_store_has_a_key_that_reads(steady_shop: Shop, store: str, prefix: str) -> None:
    made = await steady_shop.client.post(APPS, {"name": "Mine", "store": store})
    assert made.status == 201
    key = made.json()["public_api_key"]["key"]
    assert key.startswith(prefix)
    assert (await steady_shop.v1("somebody", key=key)).status in {200, 201}


async def test_a_web_app_can_have_a_sandbox_key_and_no_other_app_can(steady_shop: Shop) -> None:
    for store, status in (("rc_billing", 201), ("app_store", 400)):
        app = (await steady_shop.client.post(APPS, {"name": "Mine", "store": store})).json()["id"]
        made = await steady_shop.client.post(f"{APPS}/{app}/public_api_keys", {"environment": "sandbox"})
        assert made.status == status
        if status == 201:
            key = made.json()["key"]
            assert key.startswith("rcb_sb_")
            assert (await steady_shop.v1("somebody", key=key)).status in {200, 201}
        else:
            assert made.json()["param"] == "environment"


@pytest.mark.parametrize("store", ["mac_app_store", "amazon", "galaxy", "paddle", "rc_billing"])
async def test_a_receipt_of_a_store_that_cannot_be_connected_is_kept_by_the_phone(
    steady_shop: Shop, store: str
) -> None:
    made = (await steady_shop.client.post(APPS, {"name": "Mine", "store": store})).json()
    receipt = {"app_user_id": "buyer", "fetch_token": "amzn1.receipt", "product_ids": ["pro_monthly"]}
    reply = await steady_shop.client.post("/v1/receipts", receipt, key=made["public_api_key"]["key"])
    assert reply.status == 503
