"""POST /v1/offers: promotional offers, signed with the app's App Store key."""

import base64
from typing import Any
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.hashes import SHA256

from latchkey.stores.apple.credentials import signing_key
from tests.stores.world import PROJECT, World

BUYER = "6F1C2D1E-0000-4000-8000-00000000ADA1"


def asked(app_user_id: str) -> dict[str, Any]:
    offer = {"offer_id": "half_off", "product_id": "pro_monthly", "subscription_group": "1"}
    return {"app_user_id": app_user_id, "fetch_token": "x", "generate_offers": [offer]}


@pytest.mark.parametrize(
    ("app_user_id", "headers", "token"),
    [
        (BUYER, {"x-storekit-version": "2"}, BUYER.lower()),
        # Apple's own library writes every account token in lower case.
        (BUYER, {"x-storekit-version": "1"}, BUYER.lower()),
        ("ada", {"x-storekit-version": "2"}, ""),
        ("ada", {"x-storekit2-enabled": "false"}, "ada"),
        ("ada", {}, ""),
    ],
)
async def test_a_subscribers_offer_is_signed_for_what_the_sdk_passes_to_storekit(
    apple: World, app_user_id: str, headers: dict[str, str], token: str
) -> None:
    bought = apple.store.sell(product_id="pro_monthly", buyer="ada")
    assert (await apple.show_receipt(bought, app_user_id)).status == 200
    reply = await apple.client.post("/v1/offers", asked(app_user_id), key=apple.public_key, headers=headers)
    assert reply.status == 200
    [offer] = reply.json()["offers"]
    credentials = apple.store.credentials(apple.served.base_url)
    assert (offer["offer_id"], offer["product_id"]) == ("half_off", "pro_monthly")
    assert (offer["key_id"], offer["signature_error"]) == (credentials["key_id"], None)
    data = offer["signature_data"]
    assert str(UUID(data["nonce"])) == data["nonce"]
    said = (credentials["bundle_id"], credentials["key_id"], "pro_monthly", "half_off", token)
    signed = "\u2063".join((*said, data["nonce"], str(data["timestamp"])))
    public = signing_key(credentials["private_key"]).public_key()
    public.verify(base64.b64decode(data["signature"]), signed.encode(), ECDSA(SHA256()))


async def test_nobody_without_a_subscription_gets_a_discount_signed(apple: World) -> None:
    for app_user_id in ("stranger", "ada"):
        if app_user_id == "ada":
            await apple.client.get("/v1/subscribers/ada", key=apple.public_key)
        reply = await apple.client.post("/v1/offers", asked(app_user_id), key=apple.public_key)
        [offer] = reply.json()["offers"]
        assert (offer["signature_data"], offer["signature_error"]["code"]) == (None, 7232)


async def test_without_credentials_there_is_no_signature(apple: World) -> None:
    bought = apple.store.sell(product_id="pro_monthly", buyer="ada")
    assert (await apple.show_receipt(bought, "ada")).status == 200
    path = f"/v2/projects/{PROJECT}/apps"
    other = (await apple.client.post(path, {"name": "Other", "store": "app_store"})).json()
    for key in (other["public_api_key"]["key"], ""):
        [offer] = (await apple.client.post("/v1/offers", asked("ada"), key=key)).json()["offers"]
        assert (offer["signature_data"], offer["signature_error"]["code"]) == (None, 7234)
