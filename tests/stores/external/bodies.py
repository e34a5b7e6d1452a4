"""Snapshots as a server sends them."""

from typing import Any

from tests.http.client import DAY, NOW

MONTH = 30 * DAY


def period(number: int = 1, **more: Any) -> dict[str, Any]:
    """The n-th month from `NOW` on."""
    begins = NOW + (number - 1) * MONTH
    return {
        "transaction_id": f"pay {number}",
        "product_id": "pro_monthly",
        "purchased_at": begins,
        "expires_at": begins + MONTH,
        "price": 9.99,
        "currency": "EUR",
        **more,
    }


def subscription(*periods: dict[str, Any], as_of: int = NOW, sent: dict[str, Any] | None = None, **more: Any) -> Any:
    """A snapshot; `more` is said of the subscription, `sent` of the snapshot."""
    return {
        "store": "paddle",
        "app_user_id": "ada",
        "as_of": as_of,
        "subscription": {
            "store_subscription_identifier": "sub 1",
            "periods": list(periods) or [period()],
            "auto_renew": True,
            **more,
        },
        **(sent or {}),
    }


def status(as_of: int, **more: Any) -> Any:
    """The status alone."""
    return subscription(as_of=as_of, periods=[], **more)


def payments(*periods: dict[str, Any], as_of: int = NOW) -> Any:
    """Payments alone."""
    return subscription(*periods, as_of=as_of, auto_renew=None)


def purchase(as_of: int = NOW, sent: dict[str, Any] | None = None, **more: Any) -> Any:
    return {
        "store": "bank_transfer",
        "app_user_id": "ada",
        "as_of": as_of,
        "purchase": {
            "store_purchase_identifier": "invoice 17",
            "product_id": "pro_lifetime",
            "purchased_at": NOW,
            "price": 199,
            "currency": "EUR",
            **more,
        },
        **(sent or {}),
    }
