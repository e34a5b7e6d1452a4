"""What the Android Publisher API answers, as far as Latchkey reads it. A field that is absent has its default."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from latchkey.domain.instants import EARLIEST, LATEST, Ms
from latchkey.domain.money.amounts import FREE, Price
from latchkey.stores.errors import StoreDown

# `acknowledgementState` of a purchase that Google takes back unless it is acknowledged.
UNACKNOWLEDGED = "ACKNOWLEDGEMENT_STATE_PENDING"

ACTIVE, CANCELED, EXPIRED, PAUSED, IN_GRACE, ON_HOLD, PENDING, PENDING_CANCELED = (
    f"SUBSCRIPTION_STATE_{name}"
    for name in [
        "ACTIVE",
        "CANCELED",
        "EXPIRED",
        "PAUSED",
        "IN_GRACE_PERIOD",
        "ON_HOLD",
        "PENDING",
        "PENDING_PURCHASE_CANCELED",
    ]
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Resource(msgspec.Struct, rename="camel", frozen=True):
    pass


class Empty(Resource, frozen=True):
    """Something whose presence is all that it says."""


class GoogleMoney(Resource, frozen=True):
    currency_code: str = ""
    # Whole units, written as a text; the rest in billionths.
    units: int | str = 0
    nanos: int = 0

    @property
    def price(self) -> Price:
        try:
            micros = int(self.units) * 1_000_000 + self.nanos // 1000
        except ValueError:
            raise StoreDown("Google answered with an amount of an unexpected form.") from None
        return Price(max(micros, 0), self.currency_code or FREE.currency)


class RecurringPlan(Resource, frozen=True):
    auto_renew_enabled: bool = False
    recurring_price: GoogleMoney | None = None
    installment_details: InstallmentPlan | None = None


class InstallmentPlan(Resource, frozen=True):
    pending_cancellation: Empty | None = None


class OfferDetails(Resource, frozen=True):
    base_plan_id: str = ""


class VanityCode(Resource, frozen=True):
    promotion_code: str = ""


class SignupPromotion(Resource, frozen=True):
    vanity_code: VanityCode = VanityCode()


class OfferPhase(Resource, frozen=True):
    free_trial: Empty | None = None
    introductory_price: Empty | None = None


class NamedProduct(Resource, frozen=True):
    product_id: str = ""
    base_plan_id: str = ""


class LineItem(Resource, frozen=True):
    product_id: str
    expiry_time: str | None = None
    # The latest order that was paid.
    latest_successful_order_id: str | None = None
    auto_renewing_plan: RecurringPlan | None = None
    prepaid_plan: Empty | None = None
    offer_details: OfferDetails = OfferDetails()
    offer_phase: OfferPhase | None = None
    # A code that was redeemed with the purchase.
    signup_promotion: SignupPromotion | None = None
    # What the item becomes, or that it goes, when its period ends.
    deferred_item_replacement: NamedProduct | None = None
    deferred_item_removal: Empty | None = None
    # What the item was before.
    item_replacement: NamedProduct | None = None

    @property
    def product(self) -> str:
        return product_of(self.product_id, self.offer_details.base_plan_id)

    @property
    def ends_at(self) -> Ms:
        at = instant(self.expiry_time)
        if at is None:
            raise StoreDown("Google answered with a subscription that has no end.")
        return at


class UserCancellation(Resource, frozen=True):
    cancel_time: str | None = None


class CanceledState(Resource, frozen=True):
    user_initiated_cancellation: UserCancellation | None = None
    system_initiated_cancellation: Empty | None = None
    developer_initiated_cancellation: Empty | None = None
    replacement_cancellation: Empty | None = None


class PausedState(Resource, frozen=True):
    auto_resume_time: str | None = None


class AccountIds(Resource, frozen=True):
    external_account_id: str | None = None
    obfuscated_external_account_id: str | None = None


class SubscriptionPurchase(Resource, frozen=True):
    subscription_state: str = ""
    start_time: str | None = None
    # Of this state of the purchase.
    etag: str = ""
    linked_purchase_token: str | None = None
    line_items: tuple[LineItem, ...] = ()
    paused_state_context: PausedState | None = None
    canceled_state_context: CanceledState | None = None
    test_purchase: Empty | None = None
    acknowledgement_state: str = ""
    external_account_identifiers: AccountIds = AccountIds()
    region_code: str | None = None

    @property
    def items(self) -> tuple[LineItem, ...]:
        """Without the items that wait for the end of another one."""
        return tuple(item for item in self.line_items if item.expiry_time is not None)

    @property
    def is_prepaid(self) -> bool:
        return any(item.prepaid_plan is not None for item in self.line_items)

    @property
    def is_replaced(self) -> bool:
        """Another purchase goes on in its place."""
        context = self.canceled_state_context
        over = self.subscription_state in (CANCELED, EXPIRED)
        return over and context is not None and context.replacement_cancellation is not None


class ProductItem(Resource, frozen=True):
    product_id: str


class PurchaseState(Resource, frozen=True):
    purchase_state: str = ""


class ProductPurchase(Resource, frozen=True):
    product_line_item: tuple[ProductItem, ...] = ()
    purchase_state_context: PurchaseState = PurchaseState()
    test_purchase_context: Empty | None = None
    order_id: str | None = None
    obfuscated_external_account_id: str | None = None
    purchase_completion_time: str | None = None
    region_code: str | None = None
    acknowledgement_state: str = ""


class PhaseDetails(Resource, frozen=True):
    free_trial_details: Empty | None = None
    introductory_price_details: Empty | None = None


class OrderedSubscription(Resource, frozen=True):
    base_plan_id: str = ""
    offer_phase_details: PhaseDetails = PhaseDetails()
    service_period_start_time: str | None = None
    service_period_end_time: str | None = None


class OrderItem(Resource, frozen=True):
    product_id: str = ""
    total: GoogleMoney | None = None
    subscription_details: OrderedSubscription | None = None


class OrderEvent(Resource, frozen=True):
    event_time: str | None = None


class RefundDetails(Resource, frozen=True):
    total: GoogleMoney | None = None


class PartialRefund(Resource, frozen=True):
    state: str = ""
    create_time: str | None = None
    process_time: str | None = None
    refund_details: RefundDetails = RefundDetails()


class BuyerAddress(Resource, frozen=True):
    buyer_country: str | None = None


class OrderHistory(Resource, frozen=True):
    partial_refund_events: tuple[PartialRefund, ...] = ()
    processed_event: OrderEvent | None = None
    refund_event: OrderEvent | None = None
    cancellation_event: OrderEvent | None = None


class GoogleOrder(Resource, frozen=True):
    order_id: str = ""
    purchase_token: str = ""
    state: str = ""
    create_time: str | None = None
    last_event_time: str | None = None
    total: GoogleMoney | None = None
    line_items: tuple[OrderItem, ...] = ()
    order_history: OrderHistory = OrderHistory()
    buyer_address: BuyerAddress = BuyerAddress()


class GoogleOrders(Resource, frozen=True):
    orders: tuple[GoogleOrder, ...] = ()


class OldSubscription(Resource, frozen=True):
    auto_resume_time_millis: int | str | None = None


class VoidedPurchase(Resource, frozen=True):
    purchase_token: str = ""
    order_id: str = ""
    voided_time_millis: int | str = 0


class Pagination(Resource, frozen=True):
    next_page_token: str | None = None


class VoidedPurchases(Resource, frozen=True):
    voided_purchases: tuple[VoidedPurchase, ...] = ()
    token_pagination: Pagination = Pagination()


def product_of(product_id: str, base_plan_id: str) -> str:
    """As Latchkey names it: a subscription is a product and its base plan."""
    return f"{product_id}:{base_plan_id}" if base_plan_id else product_id


def instant(text: str | None) -> Ms | None:
    """An RFC 3339 time with up to nine digits behind the second."""
    if text is None:
        return None
    try:
        parsed = datetime.fromisoformat(text)
        at = (parsed - _EPOCH) // _MILLISECOND if parsed.tzinfo is not None else 0
    except (ValueError, OverflowError):
        at = 0
    return _checked(at)


def millis(value: int | str | None) -> Ms | None:
    if value is None or value == "":
        return None
    try:
        return _checked(int(value))
    except ValueError:
        return _checked(0)


def _checked(at: Ms) -> Ms:
    if not EARLIEST <= at <= LATEST:
        raise StoreDown("Google answered with a time of an unexpected form.")
    return at
