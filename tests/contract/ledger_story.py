"""The examples of subscriptions and purchases: what one customer bought, looked up by its ids."""

from __future__ import annotations

from typing import Any, Protocol

from tests.api.client import Shop

MONTHLY, LIFETIME = "test_1800000000123_0007", "test_1800000000123_0008"


class Asking(Protocol):
    names: dict[str, str]

    async def ask(
        self, name: str, body: Any = None, *, query: str = "", key: str | None = "", also: str = "", **names: str
    ) -> Any: ...


async def look_up(story: Asking, shop: Shop) -> None:
    for token, product in ((MONTHLY, "pro_monthly"), (LIFETIME, "pro_lifetime")):
        receipt = {"app_user_id": "lea", "fetch_token": token, "product_id": product}
        assert (await shop.client.post("/v1/receipts", receipt, key=shop.public)).status == 200
    changed = {"action": "change_product", "app_user_id": "lea", "product_id": "pro_monthly"}
    changed |= {"new_product_id": "pro_yearly", "when": "at_renewal"}
    assert (await shop.client.post(f"/v2/projects/{shop.project_id}/test_store/actions", changed)).status == 200
    found = await story.ask("GET /subscriptions", query=f"?store_subscription_identifier={MONTHLY}")
    story.names["subscription_id"] = found["items"][0]["id"]
    await story.ask("GET /subscriptions/{subscription_id}")
    await story.ask("GET /subscriptions/{subscription_id}/transactions")
    await story.ask("GET /subscriptions/{subscription_id}/entitlements")
    found = await story.ask("GET /purchases", query=f"?store_purchase_identifier={LIFETIME}")
    story.names["purchase_id"] = found["items"][0]["id"]
    await story.ask("GET /purchases/{purchase_id}")
    await story.ask("GET /purchases/{purchase_id}/entitlements")
    await story.ask("GET /customers/{customer_id}/purchases", customer_id="lea")
