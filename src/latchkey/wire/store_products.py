"""`/rcbilling/v1`: products with prices, for apps whose store cannot be asked for them (web pages, the test store)."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


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
