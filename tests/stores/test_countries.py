"""The country of a payment, as Apple and Google say it, and prices that they do not say."""

from typing import Any

import msgspec
import pytest

from latchkey.domain.instants import DAY
from latchkey.domain.money.amounts import UNKNOWN
from latchkey.domain.purchases.purchase import Environment, Purchase
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.stores.test_store import actions
from latchkey.stores.apple import snapshots
from latchkey.stores.apple.payloads import AppleTransaction
from latchkey.stores.apple.snapshots import country_of
from latchkey.stores.google import periods
from latchkey.stores.google.resources import GoogleOrder
from tests.domain.shop import NOON, PRO_MONTHLY, TEAM_MONTHLY


@pytest.mark.parametrize(
    ("storefront", "country"),
    [("USA", "US"), ("DEU", "DE"), ("GBR", "GB"), ("XKS", "XK"), ("XYZ", None), ("", None), (None, None)],
)
def test_apples_storefront_is_a_country_of_two_letters(storefront: str | None, country: str | None) -> None:
    assert country_of(storefront) == country


def transaction(**more: Any) -> AppleTransaction:
    told = {
        "transactionId": "1",
        "originalTransactionId": "1",
        "bundleId": "com.example",
        "productId": "coins",
        "purchaseDate": 1_767_960_000_000,
        "originalPurchaseDate": 1_767_960_000_000,
        "signedDate": 1_767_960_000_000,
        "type": "Consumable",
        "inAppOwnershipType": "PURCHASED",
        "environment": "Production",
        **more,
    }
    return msgspec.convert(told, AppleTransaction)


def bought(**more: Any) -> Purchase:
    (seen,) = snapshots.purchases("app", [transaction(**more)], complete=True)
    assert isinstance(seen.snapshot, Purchase)
    return seen.snapshot


def test_a_price_that_apple_does_not_tell_is_not_known() -> None:
    assert bought(storefront="JPN").country == "JP"
    assert bought().price == UNKNOWN
    assert bought(price=500_000, currency="JPY").price.micros == 500_000_000


def order(**more: Any) -> GoogleOrder:
    item = {"productId": "pro", "total": {"currencyCode": "EUR", "units": "9", "nanos": 990_000_000}}
    return msgspec.convert({"orderId": "GPA.1", "state": "PROCESSED", "lineItems": [item], **more}, GoogleOrder)


def test_googles_buyer_is_where_the_order_says_or_else_the_purchase() -> None:
    assert periods.country_of(order(buyerAddress={"buyerCountry": "fr"}), "DE") == "FR"
    assert periods.country_of(order(), "DE") == "DE"
    assert periods.country_of(None, None) is None
    assert periods.country_of(order(buyerAddress={"buyerCountry": "France"}), None) is None


def part(micros: int, state: str) -> dict[str, Any]:
    money = {"currencyCode": "EUR", "units": str(micros // 1_000_000), "nanos": micros % 1_000_000 * 1000}
    return {"state": state, "refundDetails": {"total": money}}


def test_googles_partial_refunds_are_what_was_given_back() -> None:
    events = [part(1_990_000, "PROCESSED_SUCCESSFULLY"), part(10_000, "PROCESSED_SUCCESSFULLY"), part(5_000, "PENDING")]
    history = {"partialRefundEvents": events}
    assert periods.given_back(order(state="PARTIALLY_REFUNDED", orderHistory=history)) == 2_000_000
    assert periods.given_back(order(orderHistory=history)) == 0
    assert periods.given_back(None) == 0


def test_googles_partial_refunds_have_their_days_also_after_the_rest_went_back() -> None:
    done = [part(1_990_000, "PROCESSED_SUCCESSFULLY"), part(10_000, "PROCESSED_SUCCESSFULLY")]
    done[0] |= {"createTime": "2026-01-01T00:00:05Z", "processTime": "2026-01-01T00:00:09Z"}
    done[1] |= {"createTime": "2026-01-01T00:00:03Z"}
    for state in ("PARTIALLY_REFUNDED", "REFUNDED"):
        told = periods.parts_back(order(state=state, orderHistory={"partialRefundEvents": done}))
        assert [(event.at % 10_000, event.micros) for event in told] == [(3_000, 10_000), (9_000, 2_000_000)]
    assert periods.parts_back(order(orderHistory={"partialRefundEvents": done})) == ()
    assert periods.parts_back(None) == ()


def test_the_test_store_keeps_the_country_when_a_product_changes() -> None:
    sold = actions.sell(PRO_MONTHLY, NOON, id="sub", environment=Environment.SANDBOX)
    abroad = actions.sold_in(sold, "DE")
    assert isinstance(abroad, Subscription)
    changed = actions.change_product(abroad, TEAM_MONTHLY, NOON + DAY, at_renewal=False)
    assert [period.country for period in changed.periods] == ["DE", "DE"]
