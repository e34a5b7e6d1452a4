"""The webhook envelope and the event inside it."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

API_VERSION = "1.0"


class Entitlement(Struct, frozen=True, kw_only=True):
    """Access a user has; V1 writes it the same way."""

    # A missing or null end means it never ends.
    expires_date: str | None = None
    grace_period_expires_date: str | None = None
    product_identifier: str
    purchase_date: str


class Attribute(Struct, frozen=True, kw_only=True):
    value: str
    updated_at_ms: int


class Event(Struct, frozen=True, kw_only=True):
    id: str
    type: str
    app_user_id: str
    original_app_user_id: str
    aliases: list[str]
    product_id: str | UnsetType = UNSET
    new_product_id: str | UnsetType = UNSET
    period_type: str | UnsetType = UNSET
    purchased_at_ms: int | UnsetType = UNSET
    expiration_at_ms: int | UnsetType = UNSET
    original_purchase_date_ms: int | UnsetType = UNSET
    event_timestamp_ms: int
    environment: str
    store: str | UnsetType = UNSET
    entitlements: dict[str, Entitlement]
    subscriber_attributes: dict[str, Attribute] | UnsetType = UNSET
    price: float | UnsetType = UNSET
    price_in_purchased_currency: float | UnsetType = UNSET
    currency: str | UnsetType = UNSET
    takehome_percentage: float | UnsetType = UNSET
    is_trial_conversion: bool | UnsetType = UNSET
    cancellation_reason: str | UnsetType = UNSET
    expiration_reason: str | UnsetType = UNSET
    grace_period_expires_at_ms: int | UnsetType = UNSET
    auto_resume_at_ms: int | UnsetType = UNSET
    transferred_from: list[str] | UnsetType = UNSET
    transferred_to: list[str] | UnsetType = UNSET
    amount: int | UnsetType = UNSET
    transaction_type: str | UnsetType = UNSET
    experiment_id: str | UnsetType = UNSET
    variant_id: str | UnsetType = UNSET

    # Beyond the specification's table; consumers tolerate extra fields.
    app_id: str | UnsetType = UNSET
    transaction_id: str | UnsetType = UNSET
    original_transaction_id: str | UnsetType = UNSET
    entitlement_ids: list[str] | UnsetType = UNSET
    country_code: str | UnsetType = UNSET
    renewal_number: int | UnsetType = UNSET
    offer_code: str | UnsetType = UNSET
    is_family_share: bool | UnsetType = UNSET
    tax_percentage: float | UnsetType = UNSET
    commission_percentage: float | UnsetType = UNSET
    # Counts a customer's events from 1 without a gap. It is the order; timestamps are not.
    sequence: int | UnsetType = UNSET


class Envelope(Struct, frozen=True, kw_only=True):
    api_version: str = API_VERSION
    event: Event
