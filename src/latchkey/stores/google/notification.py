"""A real-time developer notification, and the form in which the journal keeps it. It carries no state."""

from typing import Annotated

import msgspec

from latchkey.stores.errors import Malformed

# A name for people and filters. What is unknown is kept as its number.
SUBSCRIPTION_TYPES = {
    1: "SUBSCRIPTION_RECOVERED",
    2: "SUBSCRIPTION_RENEWED",
    3: "SUBSCRIPTION_CANCELED",
    4: "SUBSCRIPTION_PURCHASED",
    5: "SUBSCRIPTION_ON_HOLD",
    6: "SUBSCRIPTION_IN_GRACE_PERIOD",
    7: "SUBSCRIPTION_RESTARTED",
    8: "SUBSCRIPTION_PRICE_CHANGE_CONFIRMED",
    9: "SUBSCRIPTION_DEFERRED",
    10: "SUBSCRIPTION_PAUSED",
    11: "SUBSCRIPTION_PAUSE_SCHEDULE_CHANGED",
    12: "SUBSCRIPTION_REVOKED",
    13: "SUBSCRIPTION_EXPIRED",
    17: "SUBSCRIPTION_ITEMS_CHANGED",
    18: "SUBSCRIPTION_CANCELLATION_SCHEDULED",
    19: "SUBSCRIPTION_PRICE_CHANGE_UPDATED",
    20: "SUBSCRIPTION_PENDING_PURCHASE_CANCELED",
    22: "SUBSCRIPTION_PRICE_STEP_UP_CONSENT_UPDATED",
}
ONE_TIME_TYPES = {1: "ONE_TIME_PRODUCT_PURCHASED", 2: "ONE_TIME_PRODUCT_CANCELED"}
PAUSE_SCHEDULE_CHANGED = 11
# Of voided purchases.
SUBSCRIPTION, ONE_TIME = 1, 2
FULL_REFUND, PARTIAL_REFUND = 1, 2

Token = Annotated[str, msgspec.Meta(min_length=1, max_length=2000, pattern=r"^[!-~]+\Z")]
OrderId = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[!-~]*\Z")]


class SubscriptionTold(msgspec.Struct, rename="camel", omit_defaults=True):
    notification_type: int
    purchase_token: Token


class OneTimeTold(msgspec.Struct, rename="camel", omit_defaults=True):
    notification_type: int
    purchase_token: Token


class VoidedTold(msgspec.Struct, rename="camel", omit_defaults=True):
    purchase_token: Token
    order_id: OrderId = ""
    product_type: int = 0
    refund_type: int = FULL_REFUND


class TestTold(msgspec.Struct):
    pass


class GoogleNotification(msgspec.Struct, rename="camel", omit_defaults=True):
    package_name: str
    # Google writes a text.
    event_time_millis: int = 0
    subscription_notification: SubscriptionTold | None = None
    one_time_product_notification: OneTimeTold | None = None
    voided_purchase_notification: VoidedTold | None = None
    test_notification: TestTold | None = None


def decode(data: bytes | str) -> GoogleNotification:
    try:
        # Not strict: numbers may be written as texts.
        return msgspec.convert(msgspec.json.decode(data), GoogleNotification, strict=False)
    except (msgspec.MsgspecError, RecursionError, UnicodeError, OverflowError):
        raise Malformed("The data of the push is not a notification of Google Play.") from None


def encode(told: GoogleNotification) -> str:
    """Only what Latchkey reads: nothing else that a sender put in reaches the journal."""
    return msgspec.json.encode(told).decode()


def kind_of(told: GoogleNotification) -> str:
    if told.subscription_notification is not None:
        number = told.subscription_notification.notification_type
        return SUBSCRIPTION_TYPES.get(number, f"SUBSCRIPTION/{number}")
    if told.one_time_product_notification is not None:
        number = told.one_time_product_notification.notification_type
        return ONE_TIME_TYPES.get(number, f"ONE_TIME_PRODUCT/{number}")
    if told.voided_purchase_notification is not None:
        return "VOIDED_PURCHASE"
    return "TEST" if told.test_notification is not None else "UNKNOWN"


def subject_of(told: GoogleNotification) -> str | None:
    for one in (
        told.subscription_notification,
        told.one_time_product_notification,
        told.voided_purchase_notification,
    ):
        if one is not None:
            return one.purchase_token
    return None
