"""GET /v1/subscribers/{app_user_id} that succeeds."""

from __future__ import annotations

from tests.api.client import NOW, Shop

MONTH_LATER = "2027-02-15T08:00:00Z"
BOUGHT = "2027-01-15T08:00:00Z"


async def test_the_whole_body_of_a_subscriber_who_bought_a_month(shop: Shop) -> None:
    await shop.act("purchase", "ada", "pro_monthly")
    await shop.note("ada", __email="ada@example.com", plan="fast")
    reply = await shop.v1("ada")
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert reply.json() == {
        "request_date": "2027-01-15T08:00:00Z",
        "request_date_ms": NOW,
        "subscriber": {
            "original_app_user_id": "ada",
            "original_application_version": None,
            "first_seen": BOUGHT,
            "last_seen": BOUGHT,
            "management_url": None,
            "original_purchase_date": BOUGHT,
            "non_subscriptions": {},
            "subscriptions": {
                "pro_monthly": {
                    "auto_resume_date": None,
                    "billing_issues_detected_at": None,
                    "expires_date": MONTH_LATER,
                    "grace_period_expires_date": None,
                    "original_purchase_date": BOUGHT,
                    "purchase_date": BOUGHT,
                    "refunded_at": None,
                    "unsubscribe_detected_at": None,
                    "is_sandbox": True,
                    "ownership_type": "PURCHASED",
                    "period_type": "normal",
                    "store": "test_store",
                }
            },
            "entitlements": {
                "pro": {
                    "expires_date": MONTH_LATER,
                    "grace_period_expires_date": None,
                    "product_identifier": "pro_monthly",
                    "purchase_date": BOUGHT,
                }
            },
            "subscriber_attributes": {
                "$email": {"value": "ada@example.com", "updated_at_ms": NOW},
                "plan": {"value": "fast", "updated_at_ms": NOW},
            },
            "other_purchases": {},
        },
    }
