"""`/rcbilling/v1`: products with prices, and the checkout of a web page. The web SDK requires these names."""

from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType


class Branding(Struct, frozen=True, kw_only=True):
    id: str
    app_name: str | None
    # Always null: the page keeps the SDK's own look.
    app_icon: None = None
    app_icon_webp: None = None
    app_wordmark: None = None
    app_wordmark_webp: None = None
    appearance: None = None
    brand_font_config: None = None
    support_email: str | None
    # The provider's own page may add taxes; the SDK's form does not ask for an address.
    gateway_tax_collection_enabled: bool = False


class ElementsConfiguration(Struct, frozen=True, kw_only=True):
    mode: Literal["payment", "setup"]
    payment_method_types: list[str]
    setup_future_usage: Literal["off_session"] = "off_session"
    # In the smallest unit of the currency. Absent where nothing is charged now.
    amount: int | UnsetType = UNSET
    currency: str


class GatewayParams(Struct, frozen=True, kw_only=True):
    """What the provider's script needs to show a form. Empty where the provider shows the page."""

    stripe_account_id: str | UnsetType = UNSET
    publishable_api_key: str | UnsetType = UNSET
    elements_configuration: ElementsConfiguration | UnsetType = UNSET


class StripeBillingParams(Struct, frozen=True, kw_only=True):
    client_secret: str
    environment: Literal["production", "sandbox"]
    publishable_api_key: str
    stripe_account_id: str


class PreparedCheckout(Struct, frozen=True, kw_only=True):
    stripe_gateway_params: GatewayParams
    paypal_gateway_params: None = None
    paddle_billing_params: None = None


class StartedCheckout(Struct, frozen=True, kw_only=True):
    operation_session_id: str
    checkout_mode: Literal["purchase"] = "purchase"
    gateway_params: GatewayParams
    # With the key of a Stripe app (`strp_`): what Stripe's embedded page needs.
    stripe_billing_params: StripeBillingParams | None
    management_url: None = None
    paddle_billing_params: None = None


class CheckoutPricing(Struct, frozen=True, kw_only=True):
    operation_session_id: str
    currency: str
    total_amount_in_micros: int
    tax_amount_in_micros: int = 0
    total_excluding_tax_in_micros: int
    tax_inclusive: bool = False
    tax_breakdown: list[None] = []
    gateway_params: GatewayParams
    failed_reason: Literal["tax_collection_disabled"] = "tax_collection_disabled"
    applied_discounts: list[None] = []


class ConfirmationParams(Struct, frozen=True, kw_only=True):
    client_secret: str


class CompletedCheckout(Struct, frozen=True, kw_only=True):
    operation_session_id: str
    checkout_mode: Literal["purchase"] = "purchase"
    gateway_params: ConfirmationParams


class CheckoutError(Struct, frozen=True, kw_only=True):
    # 3: the payment failed. 4: it was never made.
    code: int
    message: str


class CheckoutOperation(Struct, frozen=True, kw_only=True):
    status: Literal["started", "in_progress", "succeeded", "failed"]
    is_expired: bool
    error: CheckoutError | None = None
    # Always null: a purchase belongs to the user for whom the checkout was started.
    redemption_info: None = None
    # These three once it succeeded.
    store_transaction_identifier: str | UnsetType = UNSET
    product_identifier: str | UnsetType = UNSET
    purchase_date: str | UnsetType = UNSET


class CheckoutStatus(Struct, frozen=True, kw_only=True):
    operation: CheckoutOperation


class PriceDetails(Struct, frozen=True, kw_only=True):
    amount_micros: int
    currency: str


class Phase(Struct, frozen=True, kw_only=True):
    # ISO 8601, for example P1M.
    period_duration: str
    # Null in a free trial.
    price: PriceDetails | None
    cycle_count: int


class SubscriptionOption(Struct, frozen=True, kw_only=True):
    id: str
    price_id: str
    base: Phase
    trial: Phase | None
    # Always null: the catalog has no introductory prices and no discounts.
    intro_price: None = None
    discount: None = None


class OneTimeOption(Struct, frozen=True, kw_only=True):
    id: str
    price_id: str
    base_price: PriceDetails
    discount: None = None


class SubscriptionDetails(Struct, frozen=True, kw_only=True, tag_field="product_type", tag="subscription"):
    identifier: str
    title: str
    description: None = None
    default_purchase_option_id: str
    purchase_options: dict[str, SubscriptionOption]


class ConsumableDetails(Struct, frozen=True, kw_only=True, tag_field="product_type", tag="consumable"):
    identifier: str
    title: str
    description: None = None
    default_purchase_option_id: str
    purchase_options: dict[str, OneTimeOption]


class NonConsumableDetails(ConsumableDetails, frozen=True, kw_only=True, tag="non_consumable"):
    pass


ProductDetails: TypeAlias = SubscriptionDetails | ConsumableDetails | NonConsumableDetails


class ProductDetailsList(Struct, frozen=True, kw_only=True):
    product_details: list[ProductDetails]
