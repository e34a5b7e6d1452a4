"""The examples of subscriptions and purchases: what one customer bought, looked up by its ids."""

from typing import Any, Protocol

from msgspec.structs import replace

from latchkey.domain.customers.intake import take_in
from latchkey.domain.purchases.reference import v2_id, written
from latchkey.engine.changes import Change
from tests.domain.shop import subscribed
from tests.http.client import DAY, NOW, Shop

MONTHLY, LIFETIME, RENEWED = (f"test_1800000000123_000{number}" for number in (7, 8, 9))


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
    await story.ask("GET /customers/{customer_id}/subscriptions", customer_id="lea", shape="vendor")
    await act(story)
    await act_again(story, shop)
    await feed(story)


async def feed(story: Asking) -> None:
    """A subscription of a store without an adapter, after its first renewal."""
    month = 30 * DAY
    periods = [
        {
            "transaction_id": f"txn_{number}",
            "product_id": "pro_monthly",
            "purchased_at": NOW - (2 - number) * month,
            "expires_at": NOW - (1 - number) * month,
            "price": 9.99,
            "currency": "EUR",
            "country": "DE",
        }
        for number in (1, 2)
    ]
    await story.ask(
        "POST /purchases",
        {
            "store": "paddle",
            "app_user_id": "mia",
            "as_of": NOW,
            "subscription": {"store_subscription_identifier": "sub_01", "periods": periods},
        },
    )


async def act_again(story: Asking, shop: Shop) -> None:
    """The same by the ids of V2, for a subscription that has renewed once, and for one of the App Store."""
    receipt = {"app_user_id": "nia", "fetch_token": RENEWED, "product_id": "pro_monthly"}
    assert (await shop.client.post("/v1/receipts", receipt, key=shop.public)).status == 200
    await shop.act("renew", "nia", "pro_monthly")
    await shop.act("issue_invoice", "nia", "pro_monthly")
    await story.ask("GET /customers/{customer_id}/invoices", customer_id="nia")
    named = {"subscription_id": written("subscription", "test_store", RENEWED)}
    transaction = "/subscriptions/{subscription_id}/transactions/{transaction_id}/actions/refund"
    await story.ask(f"POST {transaction}", transaction_id=f"{RENEWED}.0", **named)
    await story.ask("POST /subscriptions/{subscription_id}/actions/cancel", **named)
    await story.ask("POST /subscriptions/{subscription_id}/actions/refund", **named)
    seen = replace(subscribed(now=NOW, id="2000000123456789"), store="app_store")
    change = Change(
        project_id=shop.project_id,
        app_user_id="zoe",
        apply=lambda situation: take_in(situation.customer, seen, situation.now),
        create=True,
    )
    await shop.changes.make(change)
    await story.ask("GET /subscriptions/{subscription_id}/authenticated_management_url", subscription_id=v2_id(seen))


async def act(story: Asking) -> None:
    """The operator cancels, extends and refunds; what the test store cannot do is refused."""
    own = {"app_user_id": "lea", "transaction_id": f"{MONTHLY}.0"}
    extended = {"extend_by_days": 3, "extend_reason_code": 3}
    await story.ask("POST /v1/subscribers/{app_user_id}/subscriptions/{transaction_id}/extend", extended, **own)
    await story.ask("POST /v1/subscribers/{app_user_id}/subscriptions/{transaction_id}/cancel", **own)
    await story.ask("GET /subscriptions/{subscription_id}/authenticated_management_url")
    transaction = "/subscriptions/{subscription_id}/transactions/{transaction_id}/actions/refund"
    await story.ask(f"POST {transaction}", transaction_id=f"{MONTHLY}.0")
    await story.ask("POST /v1/subscribers/{app_user_id}/transactions/{transaction_id}/refund", **own)
    await story.ask("POST /purchases/{purchase_id}/actions/refund")
